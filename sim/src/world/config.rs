//! What a world is made from.

use std::collections::BTreeMap;

use kvsim_fs::FileConfig;
use kvsim_simdisk::{DeviceConfig, FaultConfig};

use crate::guest::GuestLimits;
use crate::trace::TraceMode;

/// What a world is made from.
#[derive(Debug, Clone)]
pub struct WorldConfig {
    /// Feeds every stream of random numbers.
    pub seed: u64,
    /// The device.
    pub device: DeviceConfig,
    /// Its liberties.
    pub faults: FaultConfig,
    /// The file system, of a program that uses files; device and faults count for nothing then.
    pub files: FileConfig,
    /// What a guest may use up.
    pub limits: GuestLimits,
    /// Virtual time of one unit of fuel, in picoseconds.
    pub fuel_ps: u64,
    /// The guest's own options.
    pub options: BTreeMap<String, String>,
    /// What the second opening and every later one is given on top of them, one table after the other in turn. Empty: the same options each time.
    pub reopen: Vec<BTreeMap<String, String>>,
    /// Identity of a database that is created.
    pub db_id: [u8; 16],
    /// What is kept of the trace.
    pub trace: TraceMode,
}

impl Default for WorldConfig {
    /// Seed 0, the default device without faults but those of a power cut, no options.
    fn default() -> Self {
        WorldConfig {
            seed: 0,
            device: DeviceConfig::default(),
            faults: FaultConfig::default(),
            files: FileConfig::default(),
            limits: GuestLimits::default(),
            fuel_ps: 250,
            options: BTreeMap::new(),
            reopen: Vec::new(),
            db_id: [0; 16],
            trace: TraceMode::default(),
        }
    }
}

impl WorldConfig {
    /// The options of the n-th opening, counted from 1.
    #[must_use]
    pub fn options_of(&self, opening: u64) -> BTreeMap<String, String> {
        let mut options = self.options.clone();
        let tables = self.reopen.len() as u64;
        if let Some(at) = opening.checked_sub(2).and_then(|n| n.checked_rem(tables)) {
            let table = &self.reopen[usize::try_from(at).expect("below the number of tables")];
            options.extend(table.clone());
        }
        options
    }
}
