//! A list made short: halves are left out, then quarters, down to single items.

/// Leaves out what is not needed for `fails` to hold of the rest. It is asked of shorter and shorter lists, and has to hold of the whole;
/// what it was last true of is the result.
///
/// ```
/// let needed = kvsim_search::fewer((0..100).collect(), &mut |rest: &[u32]| {
///     rest.contains(&7) && rest.contains(&63)
/// });
/// assert_eq!(needed, [7, 63]);
/// ```
pub fn fewer<T: Clone>(items: Vec<T>, fails: &mut dyn FnMut(&[T]) -> bool) -> Vec<T> {
    let mut best = items;
    let mut step = best.len();
    while step > 0 {
        let mut at = 0;
        while at < best.len() {
            let end = best.len().min(at + step);
            let rest: Vec<T> = best[..at].iter().chain(&best[end..]).cloned().collect();
            if fails(&rest) {
                best = rest;
            } else {
                at += step;
            }
        }
        step /= 2;
    }
    best
}
