//! How a host function answers: with nothing, with the number of an error, or by ending the call.

use kvsim_fs::Errno;

use super::abi::Code;
use super::memory::View;
use crate::host::Ending;

/// What a host function gives: nothing, or the number of an error.
pub(crate) type Answer = Result<(), Code>;

/// Ends the call under way.
pub(super) fn end(view: &mut View<'_>, ending: Ending) -> Answer {
    view.host.ending = Some(ending);
    Err(Code::NOT_SUPPORTED)
}

/// The answer of a call of the file system. What a guest meets rarely is told to people too, once.
pub(super) fn told<T>(
    view: &mut View<'_>,
    name: &'static str,
    result: Result<T, Errno>,
) -> Result<T, Code> {
    result.map_err(|error| {
        match error {
            Errno::NoSpace => view.host.note("no space", || {
                format!("{name}: no space is left on the file system")
            }),
            Errno::TooManyFiles => view.host.note("too many files", || {
                format!("{name}: too many files are open")
            }),
            Errno::Io => view.host.note("input/output error", || {
                format!("{name}: an input/output error")
            }),
            _ => {}
        }
        Code::from(error)
    })
}
