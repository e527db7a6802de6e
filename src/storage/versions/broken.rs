//! Ways to break snapshots on purpose: for tests of the tests.

use super::Versions;
use crate::base::atomics::Ordering;

/// The part that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Break {
    /// Nothing: the control, which must pass.
    Nothing,
    /// One version of several is not preserved.
    LosesVersions,
    /// A version is taken for the row of the epoch in which it was overwritten, too.
    KeepsVersionsTooLong,
    /// A snapshot lacks its last epoch.
    IsTooEarly,
    /// Slices are not merged for a snapshot.
    LeavesSlices,
}

impl Versions {
    /// Breaks snapshots in this way from here on.
    pub(crate) fn break_on_purpose(&self, how: Break) {
        self.broken.store(how as usize, Ordering::SeqCst);
    }

    /// Returns true if a version is lost at this moment.
    pub(super) fn loses_one(&self) -> bool {
        self.is_broken(Break::LosesVersions) && fastrand::u32(0..3) == 0
    }

    /// Returns true if snapshots are broken in this way.
    pub(crate) fn is_broken(&self, how: Break) -> bool {
        self.broken.load(Ordering::SeqCst) == how as usize
    }
}
