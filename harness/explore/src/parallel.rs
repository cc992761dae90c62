//! The same work on many items by several threads, with the results in the order of the items: how many threads there are makes no
//! difference to what comes out. The only shared thing is a counter.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many items are taken at a time, if each is little work.
pub(crate) const STRIDE: usize = 4;

/// Does `work` on every item; a thread takes `stride` of them at a time.
///
/// # Panics
/// If `work` does.
pub fn map<T: Sync, R: Send>(
    jobs: NonZeroUsize,
    stride: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let threads = jobs.get().min(items.len().div_ceil(stride));
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(stride, Ordering::Relaxed);
            if start >= items.len() {
                return done;
            }
            let end = items.len().min(start + stride);
            done.push((
                start,
                items[start..end].iter().map(&work).collect::<Vec<R>>(),
            ));
        }
    };
    let mut parts = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut parts = take();
        for other in others {
            match other.join() {
                Ok(done) => parts.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        parts
    });
    parts.sort_unstable_by_key(|(start, _)| *start);
    parts.into_iter().flat_map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the order is that of the items. Method: numbers, with more and fewer threads than items.
    #[test]
    fn results_come_in_the_order_of_the_items() {
        for (count, jobs) in [(0, 3), (1, 3), (5, 8), (1_000, 3)] {
            let items: Vec<u64> = (0..count).collect();
            let jobs = NonZeroUsize::new(jobs).unwrap();
            let doubled: Vec<u64> = items.iter().map(|item| item * 2).collect();
            assert_eq!(map(jobs, STRIDE, &items, |item| item * 2), doubled);
        }
    }
}
