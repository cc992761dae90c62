//! What is done with the file of a database that nobody has open.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kvsim_native::{OpenOptions, RepairReport, compact, repair};

use crate::border::{Kind, border, border_or, free, give, place, shared, shared_or_null, text};
use crate::error::{KvdbError, KvdbStatus};
use crate::options::KvdbOptions;

/// What a repair did, and what is lost.
pub struct KvdbRepairReport(());

/// What is behind a report.
pub(crate) struct Reported {
    report: RepairReport,
    text: CString,
}

impl Kind for KvdbRepairReport {
    type Inside = Reported;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb rep");
}

fn path_of(text: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(text.to_bytes()))
}

/// Makes the file of a database that nobody has open as small as it can be: all is copied into a new file, which then takes the old one's name. The file system needs room for both.
///
/// `options` may be NULL. KVDB_LOCKED if it is open; KVDB_INVALID if it is a block device or has other names (hard links); KVDB_CORRUPTION if a value is damaged. Unless it is
/// KVDB_OK the old file is as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_compact(
    path: *const c_char,
    options: *const KvdbOptions,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let path = unsafe { text(path, "path") }?;
        // SAFETY: the same.
        let options = unsafe { shared_or_null(options, "options") }?;
        let options = options.cloned().unwrap_or_else(OpenOptions::default);
        compact(path_of(path), &options, |_| ())?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Makes a new database at `to` of what can be read of a damaged one that nobody has open, and says what is lost. The damaged file is only read.
///
/// `options` may be NULL. KVDB_OK also where something is lost: the report says what, and is to be freed. KVDB_LOCKED if the damaged one is open; KVDB_INVALID if it is no database, or
/// there is something at `to` already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_repair(
    damaged: *const c_char,
    to: *const c_char,
    options: *const KvdbOptions,
    report: *mut *mut KvdbRepairReport,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let report = unsafe { place(report, std::ptr::null_mut(), "report") }?;
        // SAFETY: the same.
        let (damaged, to) = unsafe { (text(damaged, "damaged")?, text(to, "to")?) };
        // SAFETY: the same.
        let options = unsafe { shared_or_null(options, "options") }?;
        let options = options.cloned().unwrap_or_else(OpenOptions::default);
        let made = repair(path_of(damaged), path_of(to), &options, |_| ())?;
        // Keys are printed so that none has a zero in it.
        let text = made.to_string().replace('\0', "\u{fffd}");
        *report = give::<KvdbRepairReport>(Reported {
            text: CString::new(text).unwrap_or_default(),
            report: made,
        });
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Whether the new database has all that one without damage would show: KVDB_OK, or KVDB_NOT_FOUND if something is lost or may be. KVDB_INVALID if `report` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_repair_report_is_complete(
    report: *const KvdbRepairReport,
) -> KvdbStatus {
    border_or(KvdbStatus::KvdbInvalid, || {
        // SAFETY: as the header demands.
        let report = unsafe { shared(report, "report") }?;
        Ok(match report.report.is_complete() {
            true => KvdbStatus::KvdbOk,
            false => KvdbStatus::KvdbNotFound,
        })
    })
}

/// How many keys were copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_repair_report_keys(report: *const KvdbRepairReport) -> u64 {
    border_or(0, || {
        // SAFETY: as the header demands.
        Ok(unsafe { shared(report, "report") }?.report.copied.entries)
    })
}

/// The report as a text that ends with a zero: a line for each key that is lost or has an older value, and for whatever else is lost or may be. It is valid until the report is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_repair_report_text(report: *const KvdbRepairReport) -> *const c_char {
    border_or(c"".as_ptr(), || {
        // SAFETY: as the header demands.
        Ok(unsafe { shared(report, "report") }?.text.as_ptr())
    })
}

/// Frees a report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_repair_report_free(report: *mut KvdbRepairReport) {
    // SAFETY: as the header demands.
    unsafe { free(report) }
}
