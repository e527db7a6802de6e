//! Memory that the system may refuse: what is large is asked for where a refusal can still be an error.
//!
//! Invariants: a refused request changes nothing. Small requests are not asked for here: where the system has not even those,
//! the process ends, as Rust programs do.

use std::alloc::{Layout, handle_alloc_error};

use crate::error::Error;

/// The system has refused this many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    bytes: usize,
}

impl Refused {
    /// A refusal of this many bytes.
    #[cold]
    pub(crate) fn of(bytes: usize) -> Refused {
        Refused { bytes }
    }

    /// The error of the call that fails without the memory. No `From`: a second one would make `?` in users'
    /// closures ambiguous.
    #[cold]
    pub(crate) fn error(self) -> Error {
        Error::OutOfMemory { bytes: self.bytes }
    }

    /// Ends the process, where there is no call that could fail instead.
    #[cold]
    pub(crate) fn abort(self) -> ! {
        handle_alloc_error(Layout::from_size_align(self.bytes, 8).unwrap_or(Layout::new::<u64>()))
    }
}

/// Makes room for this many more elements, as `Vec::reserve` does.
///
/// # Errors
/// The system refuses the memory.
#[inline]
pub(crate) fn reserve<T>(vec: &mut Vec<T>, additional: usize) -> Result<(), Refused> {
    vec.try_reserve(additional).map_err(|_| Refused::of(additional.saturating_mul(size_of::<T>())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_changes_nothing() {
        let mut vec = vec![1_u64, 2];
        let refused = reserve(&mut vec, usize::MAX / 16).expect_err("no machine has that much");
        assert_eq!((vec.as_slice(), refused), (&[1, 2][..], Refused::of(usize::MAX / 16 * 8)));
        assert!(matches!(refused.error(), Error::OutOfMemory { .. }));
        assert_eq!(reserve(&mut vec, 10), Ok(()));
        assert!(vec.capacity() >= 12);
    }
}
