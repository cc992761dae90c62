//! What a call of the host may reach.

use kvsim_engine::{Engine, Request};

use crate::port::{HostPort, OWN};

/// The engine and its port, at this time.
pub(crate) struct Call<'a> {
    pub(crate) now: u64,
    pub(crate) engine: &'a mut Engine,
    pub(crate) port: &'a mut HostPort,
}

impl Call<'_> {
    /// Asks the engine for something whose reply the guest gets itself, and not its client.
    pub(crate) fn ask(&mut self, id: u64, request: Request<'_>) {
        self.engine.request(self.now, OWN | id, request, self.port);
    }
}
