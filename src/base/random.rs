//! The source of random numbers: those that must differ from every other process's, and cheap ones for backoff and sampling.
//!
//! For the first the standard library seeds its hash tables from the operating system: hashing with such keys gives bytes that
//! that cannot be predicted, without a dependency. They are good for names, not for secrets.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

/// Sixteen bytes that no other call, process or machine is going to get.
pub(crate) fn unique_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.chunks_exact_mut(8) {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        // A clock before 1970 only takes one of three ingredients away.
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        hasher.write_u128(since_1970.as_nanos());
        half.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    bytes
}

/// A number below this one: quickly, from a state of the thread's own.
pub(crate) fn below(bound: u32) -> u32 {
    fastrand::u32(..bound.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn bytes_differ_from_call_to_call_and_thread_to_thread() {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..1000).map(|_| unique_bytes()).collect::<Vec<_>>()))
            .collect();
        let mut seen = HashSet::new();
        for thread in threads {
            seen.extend(thread.join().expect("the thread ends well"));
        }
        assert_eq!(seen.len(), 4000);
    }
}
