//! Lock modes: which of them go together, and which one is as strong as two.
//!
//! After Gray, Lorie, Putzolu and Traiger, "Granularity of Locks and Degrees of Consistency in a Shared Data Base"
//! (1976). An intention mode on a database or table says that something below it is locked in the mode intended.
//! The modes form a lattice: `IntentionShared` is below all, `Exclusive` is above all, `IntentionExclusive` and
//! `Shared` are not comparable, and `SharedIntentionExclusive` is their supremum.

/// The mode in which a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Mode {
    /// IS: something below is read.
    IntentionShared,
    /// IX: something below is written.
    IntentionExclusive,
    /// S: all of it is read.
    Shared,
    /// SIX: all of it is read, and something below is written.
    SharedIntentionExclusive,
    /// X: all of it is written.
    Exclusive,
}

use Mode::{Exclusive, IntentionExclusive, IntentionShared, Shared, SharedIntentionExclusive};

/// For each mode, in the order of the enum, the modes of another owner with which it is compatible.
const COMPATIBLE: [[bool; 5]; 5] = [
    [true, true, true, true, false],
    [true, true, false, false, false],
    [true, false, true, false, false],
    [true, false, false, false, false],
    [false, false, false, false, false],
];

impl Mode {
    /// Every mode.
    #[cfg(test)]
    pub(super) const ALL: [Mode; 5] =
        [IntentionShared, IntentionExclusive, Shared, SharedIntentionExclusive, Exclusive];

    /// Returns true if two owners may hold these modes at the same time.
    pub(super) fn is_compatible(self, other: Mode) -> bool {
        COMPATIBLE[self as usize][other as usize]
    }

    /// The weakest mode that is as strong as both: what an owner holds that has requested the one and the other.
    pub(super) fn supremum(self, other: Mode) -> Mode {
        match (self, other) {
            (Exclusive, _) | (_, Exclusive) => Exclusive,
            (IntentionShared, mode) | (mode, IntentionShared) => mode,
            (mode, same) if mode == same => mode,
            _ => SharedIntentionExclusive,
        }
    }

    /// Returns true if a holder of this mode needs nothing more to have the other one.
    pub(crate) fn covers(self, other: Mode) -> bool {
        self.supremum(other) == self
    }

    /// The mode that has to be held on the level above before this one is requested.
    pub(super) fn intention(self) -> Mode {
        match self {
            IntentionShared | Shared => IntentionShared,
            IntentionExclusive | SharedIntentionExclusive | Exclusive => IntentionExclusive,
        }
    }

    /// Returns true if a holder of this mode on the level above has the other one on everything below without a lock
    /// there.
    pub(super) fn covers_below(self, wanted: Mode) -> bool {
        match self {
            Exclusive => true,
            Shared | SharedIntentionExclusive => wanted.intention() == IntentionShared,
            IntentionShared | IntentionExclusive => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_gray_s() {
        let pairs = [
            (IntentionShared, "IS IX S SIX"),
            (IntentionExclusive, "IS IX"),
            (Shared, "IS S"),
            (SharedIntentionExclusive, "IS"),
            (Exclusive, ""),
        ];
        let names = ["IS", "IX", "S", "SIX", "X"];
        for (mode, with) in pairs {
            for (other, name) in Mode::ALL.into_iter().zip(names) {
                let expected = with.split(' ').any(|one| one == name);
                assert_eq!(mode.is_compatible(other), expected, "{mode:?} beside {other:?}");
                assert_eq!(other.is_compatible(mode), expected, "{other:?} beside {mode:?}");
            }
        }
    }

    #[test]
    fn the_supremum_is_a_lattice_s() {
        for a in Mode::ALL {
            assert_eq!(a.supremum(a), a);
            assert_eq!(a.supremum(IntentionShared), a);
            assert_eq!(a.supremum(Exclusive), Exclusive);
            for b in Mode::ALL {
                let both = a.supremum(b);
                assert_eq!(both, b.supremum(a));
                assert!(both.covers(a) && both.covers(b));
                for c in Mode::ALL {
                    assert_eq!(both.supremum(c), a.supremum(b.supremum(c)));
                    assert!(!(c.covers(a) && c.covers(b)) || c.covers(both), "{both:?} is the least");
                }
            }
        }
        assert_eq!(Shared.supremum(IntentionExclusive), SharedIntentionExclusive);
    }

    #[test]
    fn a_stronger_mode_conflicts_with_everything_a_weaker_one_does() {
        for strong in Mode::ALL {
            for weak in Mode::ALL.into_iter().filter(|weak| strong.covers(*weak)) {
                for other in Mode::ALL {
                    assert!(!strong.is_compatible(other) || weak.is_compatible(other));
                }
            }
        }
    }

    #[test]
    fn a_supremum_conflicts_with_exactly_what_one_of_the_two_conflicts_with() {
        for a in Mode::ALL {
            for b in Mode::ALL {
                for other in Mode::ALL {
                    let both = a.supremum(b).is_compatible(other);
                    assert_eq!(
                        both,
                        a.is_compatible(other) && b.is_compatible(other),
                        "{a:?} {b:?} {other:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_intention_protects_what_is_below() {
        for below in Mode::ALL {
            for above in Mode::ALL {
                // A mode above that covers `other` below must exclude every owner whose lock below conflicts.
                for other in Mode::ALL.into_iter().filter(|other| above.covers_below(*other)) {
                    if !other.is_compatible(below) {
                        assert!(!above.is_compatible(below.intention()), "{above:?} {other:?} {below:?}");
                    }
                }
            }
        }
        assert!(Shared.covers_below(Shared) && !Shared.covers_below(Exclusive));
        assert!(!IntentionExclusive.covers_below(IntentionShared));
    }
}
