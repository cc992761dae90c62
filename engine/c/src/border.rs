//! The way between C and Rust: what comes in is checked, what goes out has an owner, and a panic becomes a status.
//!
//! Invariants:
//! - a handle begins with a number that says of which kind it is. It is checked before anything else is read, and changed before the handle is freed;
//! - a place for a result is checked and set to nothing before anything is done.

use std::ffi::{CStr, c_char};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Failed, KvdbError, KvdbStatus};

/// What a function inside the border comes to.
pub(crate) type Outcome<T> = Result<T, Failed>;

/// What the header calls a handle, and what is behind it.
pub(crate) trait Kind {
    /// What is behind it.
    type Inside;
    /// Tells it from other kinds.
    const NUMBER: u64;
}

/// A handle in memory. C knows the address of one as that of a `K`.
#[repr(C)]
struct Handle<T> {
    number: u64,
    inside: T,
}

/// What a handle that was freed begins with, until its memory is used again.
const FREED: u64 = 0;

/// Makes a handle, which whoever gets it has to free.
pub(crate) fn give<K: Kind>(inside: K::Inside) -> *mut K {
    let number = K::NUMBER;
    Box::into_raw(Box::new(Handle { number, inside })).cast()
}

/// The address of a handle of this kind, or what is wrong with it.
///
/// # Safety
/// If it is an address at all, then that of a handle.
unsafe fn checked<K: Kind>(pointer: *const K, name: &str) -> Outcome<*mut Handle<K::Inside>> {
    let handle = pointer.cast_mut().cast::<Handle<K::Inside>>();
    if handle.is_null() {
        return Err(Failed::invalid(format!("`{name}` is NULL")));
    }
    if !handle.is_aligned() {
        return Err(Failed::invalid(format!("`{name}` is no handle")));
    }
    // SAFETY: it is the address of a handle, and each begins with its number, whatever its kind.
    let number = unsafe { handle.cast::<u64>().read() };
    if number != K::NUMBER {
        let message = format!("`{name}` is a handle of another kind, or was freed");
        return Err(Failed::invalid(message));
    }
    Ok(handle)
}

/// What is behind a handle that many threads may use.
///
/// # Safety
/// If it is an address at all, then that of a handle, which is not freed before `'a` ends.
pub(crate) unsafe fn shared<'a, K: Kind>(pointer: *const K, name: &str) -> Outcome<&'a K::Inside> {
    // SAFETY: as the caller states.
    let handle = unsafe { checked(pointer, name) }?;
    // SAFETY: it was checked, so what is behind it is of this kind.
    Ok(unsafe { &(*handle).inside })
}

/// The same where it may be NULL.
///
/// # Safety
/// As for `shared`.
pub(crate) unsafe fn shared_or_null<'a, K: Kind>(
    pointer: *const K,
    name: &str,
) -> Outcome<Option<&'a K::Inside>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller states.
    unsafe { shared(pointer, name) }.map(Some)
}

/// What is behind a handle that one thread uses at a time.
///
/// # Safety
/// As for `shared`; and nobody else uses it.
pub(crate) unsafe fn alone<'a, K: Kind>(pointer: *mut K, name: &str) -> Outcome<&'a mut K::Inside> {
    // SAFETY: as the caller states.
    let handle = unsafe { checked(pointer, name) }?;
    // SAFETY: it was checked, so what is behind it is of this kind.
    Ok(unsafe { &mut (*handle).inside })
}

/// Takes a handle back from C.
///
/// # Safety
/// As for `alone`; and nobody uses it from now on.
pub(crate) unsafe fn take<K: Kind>(pointer: *mut K, name: &str) -> Outcome<K::Inside> {
    // SAFETY: as the caller states.
    let handle = unsafe { checked(pointer, name) }?;
    // SAFETY: it was checked, so it was made by `give`, and nobody uses it.
    let mut handle = unsafe { Box::from_raw(handle) };
    handle.number = FREED;
    // What optimises may not leave that write out: it is there for whoever frees it twice.
    std::hint::black_box(&mut handle.number);
    Ok(handle.inside)
}

/// Frees a handle. NULL and what is no such handle is left as it is.
///
/// # Safety
/// As for `take`.
pub(crate) unsafe fn free<K: Kind>(pointer: *mut K) {
    // SAFETY: as the caller states.
    let freed = catch_unwind(AssertUnwindSafe(|| drop(unsafe { take(pointer, "") })));
    // To drop a panic could panic once more.
    std::mem::forget(freed);
}

/// Bytes that C hands in; NULL is none.
///
/// # Safety
/// If it is an address at all, then that of so many bytes, which do not change before `'a` ends.
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, len: usize, name: &str) -> Outcome<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failed::invalid(format!("`{name}` is NULL and not empty")));
    }
    if isize::try_from(len).is_err() {
        return Err(Failed::invalid(format!("`{name}` cannot have {len} bytes")));
    }
    // SAFETY: as the caller states; none is larger than what memory can hold.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// The same where NULL is something else than no bytes.
///
/// # Safety
/// As for `bytes`.
pub(crate) unsafe fn bytes_or_null<'a>(
    pointer: *const u8,
    len: usize,
    name: &str,
) -> Outcome<Option<&'a [u8]>> {
    if pointer.is_null() && len == 0 {
        return Ok(None);
    }
    // SAFETY: as the caller states.
    unsafe { bytes(pointer, len, name) }.map(Some)
}

/// Bounds of keys.
type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The keys from the first bytes on, included, up to the second ones, excluded; NULL is no bound.
///
/// # Safety
/// As for `bytes`.
pub(crate) unsafe fn range<'a>(
    start: (*const u8, usize),
    end: (*const u8, usize),
) -> Outcome<Range<'a>> {
    // SAFETY: as the caller states.
    let start = unsafe { bytes_or_null(start.0, start.1, "start") }?;
    // SAFETY: the same.
    let end = unsafe { bytes_or_null(end.0, end.1, "end") }?;
    Ok((
        start.map_or(Bound::Unbounded, Bound::Included),
        end.map_or(Bound::Unbounded, Bound::Excluded),
    ))
}

/// A text that ends with a zero.
///
/// # Safety
/// If it is an address at all, then that of bytes of which one is zero, and which do not change before `'a` ends.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Outcome<&'a CStr> {
    if pointer.is_null() {
        return Err(Failed::invalid(format!("`{name}` is NULL")));
    }
    // SAFETY: as the caller states.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// A place for a result, which is set to this first.
///
/// # Safety
/// If it is an address at all, then that of a place which nobody else uses before `'a` ends.
pub(crate) unsafe fn place<'a, T: Copy>(
    pointer: *mut T,
    nothing: T,
    name: &str,
) -> Outcome<&'a mut T> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Failed::invalid(format!(
            "`{name}` is no place for a result"
        )));
    }
    // SAFETY: as the caller states; C may have left it as it was allocated.
    unsafe { pointer.write(nothing) };
    // SAFETY: it was just written.
    Ok(unsafe { &mut *pointer })
}

/// Does it, and gives C the status and the error.
///
/// # Safety
/// `error` is NULL or the address of a place which nobody else uses meanwhile.
pub(crate) unsafe fn border(
    error: *mut *mut KvdbError,
    work: impl FnOnce() -> Outcome<KvdbStatus>,
) -> KvdbStatus {
    let ended = catch_unwind(AssertUnwindSafe(work));
    let failed = match ended {
        Ok(Ok(status)) => {
            if !error.is_null() {
                // SAFETY: as the caller states.
                unsafe { error.write_unaligned(std::ptr::null_mut()) };
            }
            return status;
        }
        Ok(Err(failed)) => failed,
        Err(panic) => Failed::panicked(panic),
    };
    let status = failed.status;
    if !error.is_null() {
        // SAFETY: as the caller states.
        unsafe { error.write_unaligned(give::<KvdbError>(failed.into())) };
    }
    status
}

/// The same for a function that cannot say what went wrong: then it gives this.
pub(crate) fn border_or<T>(otherwise: T, work: impl FnOnce() -> Outcome<T>) -> T {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.unwrap_or(otherwise),
        Err(panic) => {
            // To drop a panic could panic once more.
            std::mem::forget(panic);
            otherwise
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{kvdb_error_free, kvdb_error_message};

    struct One;
    impl Kind for One {
        type Inside = String;
        const NUMBER: u64 = 11;
    }
    struct Other;
    impl Kind for Other {
        type Inside = u8;
        const NUMBER: u64 = 12;
    }

    /// Goal: a panic is a status with the panic's text, for both kinds of border, also where its value panics when it is dropped. Method: such panics.
    #[test]
    fn a_panic_stays_inside() {
        struct Twice;
        impl Drop for Twice {
            fn drop(&mut self) {
                assert!(std::thread::panicking(), "once more");
            }
        }
        let mut error = std::ptr::null_mut();
        // SAFETY: the place is there.
        let status = unsafe { border(&raw mut error, || panic!("a bug")) };
        assert_eq!(status, KvdbStatus::KvdbPanicked);
        // SAFETY: it was just given, and is freed once.
        let message = unsafe { CStr::from_ptr(kvdb_error_message(error)) };
        assert!(message.to_string_lossy().contains("a bug"), "{message:?}");
        // SAFETY: the same.
        unsafe { kvdb_error_free(error) };
        let twice = || std::panic::resume_unwind(Box::new(Twice));
        // SAFETY: there is no place.
        let status = unsafe { border(std::ptr::null_mut(), twice) };
        assert_eq!(status, KvdbStatus::KvdbPanicked);
        assert_eq!(
            border_or(7, || std::panic::resume_unwind(Box::new(Twice))),
            7
        );
    }

    /// Goal: no pointer is used that cannot be one. Method: NULL, odd addresses, a handle of another kind, lengths beyond memory.
    #[test]
    fn pointers_are_checked() {
        let handle = give::<One>("inside".to_owned());
        // SAFETY: of all these, what is an address leads to a handle that is freed at the end.
        unsafe {
            assert_eq!(
                shared(handle, "it").map_err(|it| it.message),
                Ok(&"inside".to_owned())
            );
            let refused = |outcome: Outcome<String>| outcome.expect_err("it is refused").message;
            let null = std::ptr::null_mut::<One>();
            assert!(refused(shared(null, "it").cloned()).contains("`it` is NULL"));
            assert!(shared_or_null(null, "it").is_ok_and(|it| it.is_none()));
            let odd = handle.cast::<u8>().add(1).cast::<One>();
            assert!(refused(take(odd, "it")).contains("`it` is no handle"));
            assert!(shared::<Other>(handle.cast(), "it").is_err());
            free::<Other>(handle.cast());
            assert_eq!(
                take(handle, "it").map_err(|it| it.message),
                Ok("inside".to_owned())
            );

            assert!(bytes(std::ptr::null(), 0, "it").is_ok_and(<[u8]>::is_empty));
            assert!(bytes(std::ptr::null(), 1, "it").is_err());
            assert!(bytes(b"a".as_ptr(), usize::MAX, "it").is_err());
            assert!(bytes_or_null(std::ptr::null(), 0, "it").is_ok_and(|it| it.is_none()));
            assert!(bytes_or_null(b"".as_ptr(), 0, "it").is_ok_and(|it| it.is_some()));
            assert!(text(std::ptr::null(), "it").is_err());
            assert!(place(std::ptr::null_mut(), 1_u64, "it").is_err());
        }
    }
}
