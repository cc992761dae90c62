//! Buffers that have been to the disk and are used again: to get fresh memory from the operating system costs more than to fill it.
//!
//! Invariant: what is kept never exceeds the bound.

use crate::api::buffer::IoBuf;

#[derive(Debug)]
pub(crate) struct Pool {
    spare: Vec<IoBuf>,
    spare_bytes: usize,
    bytes_max: usize,
}

impl Pool {
    pub(crate) fn new(bytes_max: usize) -> Pool {
        Pool {
            spare: Vec::new(),
            spare_bytes: 0,
            bytes_max,
        }
    }

    /// A buffer of this length that holds anything.
    pub(crate) fn take(&mut self, len: usize) -> IoBuf {
        match self
            .spare
            .iter()
            .rposition(|buffer| buffer.capacity() >= len)
        {
            Some(at) => {
                let mut buffer = self.spare.swap_remove(at);
                self.spare_bytes -= buffer.capacity();
                buffer.set_len(len);
                buffer
            }
            None => IoBuf::zeroed(len),
        }
    }

    /// Takes a buffer back. Smaller ones leave for it where there is no room for both: they serve less often, and are got anew sooner.
    pub(crate) fn give(&mut self, buffer: IoBuf) {
        let bytes = buffer.capacity();
        if bytes == 0 || bytes > self.bytes_max {
            return;
        }
        while self.spare_bytes + bytes > self.bytes_max {
            let smallest = (0..self.spare.len()).min_by_key(|at| self.spare[*at].capacity());
            let smallest = smallest.expect("what is kept takes room");
            if self.spare[smallest].capacity() >= bytes {
                return;
            }
            self.spare_bytes -= self.spare.swap_remove(smallest).capacity();
        }
        self.spare_bytes += bytes;
        self.spare.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: memory is used again, and not hoarded. Method: give back more than the bound, then take.
    #[test]
    fn buffers_come_back_up_to_the_bound() {
        let mut pool = Pool::new(100_000);
        for _ in 0..100 {
            pool.give(IoBuf::zeroed(4000));
        }
        let kept = pool.spare.len();
        assert!(pool.spare_bytes <= 100_000 && (10..=25).contains(&kept));
        assert_eq!(pool.take(50_000).len(), 50_000);
        assert_eq!(pool.spare.len(), kept, "none of them was large enough");
        let buffer = pool.take(100);
        assert_eq!((buffer.len(), pool.spare.len()), (100, kept - 1));
        pool.give(buffer);
        assert_eq!(pool.spare.len(), kept);
    }

    /// Goal: what is large stays when there is not room for all. Method: a large buffer among many small ones, then a small one more.
    #[test]
    fn small_buffers_leave_for_a_large_one() {
        let mut pool = Pool::new(100_000);
        for _ in 0..100 {
            pool.give(IoBuf::zeroed(4000));
        }
        pool.give(IoBuf::zeroed(90_000));
        assert!(pool.spare_bytes <= 100_000);
        pool.give(IoBuf::zeroed(20_000));
        let largest = |pool: &Pool| pool.spare.iter().map(IoBuf::capacity).max();
        assert!(largest(&pool) >= Some(90_000));
        pool.give(IoBuf::zeroed(200_000));
        assert!(largest(&pool) < Some(200_000) && pool.spare_bytes <= 100_000);
    }
}
