//! One table's gap locks, step by step, on one thread.

use super::*;

/// A space, and owners with a signal each; owners are given by number, keys are one byte.
struct Rig {
    space: RangeLocks,
    owners: Vec<(OwnerId, Arc<Signal>)>,
}

impl Rig {
    fn new() -> Rig {
        let owners = (0..8).map(|_| (OwnerId::new(), Arc::default()));
        Rig { space: RangeLocks::default(), owners: owners.collect() }
    }

    fn request(&mut self, owner: usize, claim: &Claim) -> Answer {
        let (id, signal) = &self.owners[owner];
        signal.arm();
        self.space.request(*id, claim.clone(), Some(signal))
    }

    fn holds(&mut self, owner: usize, claim: Claim) {
        assert_eq!(self.request(owner, &claim), Answer::Granted, "{owner} {claim:?}");
    }

    fn waits(&mut self, owner: usize, claim: Claim) {
        assert_eq!(self.request(owner, &claim), Answer::Queued, "{owner} {claim:?}");
    }

    fn release(&mut self, owner: usize) {
        let id = self.owners[owner].0;
        let keys: Vec<Key> = self
            .space
            .points
            .iter()
            .filter(|(_, holder)| *holder == id)
            .map(|(key, _)| key.clone())
            .collect();
        self.space.release_points(id, keys.into_iter()).wake();
        self.space.release_ranges(id).wake();
    }

    fn is_granted(&self, owner: usize) -> bool {
        self.owners[owner].1.spin(1) == Some(Outcome::Granted)
    }

    fn edges(&self, waiter: usize) -> Vec<usize> {
        let mut blockers = Vec::new();
        self.space.edges(self.owners[waiter].0, &mut |from, to| {
            assert_eq!(from, self.owners[waiter].0);
            blockers.extend(self.owners.iter().position(|(owner, _)| *owner == to));
        });
        blockers.sort_unstable();
        blockers
    }
}

fn range(low: u8, high: u8) -> Claim {
    Claim::Range(KeyRange::new(Bound::Included(&[low]), Bound::Included(&[high])).expect("it is not empty"))
}

fn point(key: u8) -> Claim {
    Claim::InsertIntention(Key::from_slice(&[key]))
}

#[test]
fn an_insert_waits_for_a_range_around_it_only() {
    let mut rig = Rig::new();
    rig.holds(0, range(10, 20));
    for key in [9, 21] {
        rig.holds(1, point(key));
    }
    for (owner, key) in [(2, 10), (3, 15), (4, 20)] {
        rig.waits(owner, point(key));
        assert_eq!(rig.edges(owner), [0]);
    }
    rig.release(0);
    assert!((2..5).all(|owner| rig.is_granted(owner)));
}

#[test]
fn a_range_waits_for_every_insert_in_it_only() {
    let mut rig = Rig::new();
    for (owner, key) in [(0, 10), (1, 15), (2, 30)] {
        rig.holds(owner, point(key));
    }
    rig.holds(3, range(16, 29));
    rig.waits(4, range(10, 20));
    assert_eq!(rig.edges(4), [0, 1]);
    rig.release(0);
    assert!(!rig.is_granted(4));
    rig.release(1);
    assert!(rig.is_granted(4));
}

#[test]
fn bounds_that_are_excluded_don_t_count() {
    let mut rig = Rig::new();
    rig.holds(0, point(10));
    rig.holds(0, point(20));
    let between = KeyRange::new(Bound::Excluded(&[10]), Bound::Excluded(&[20])).expect("it is not empty");
    rig.holds(1, Claim::Range(between));
    let from = KeyRange::new(Bound::Included(&[20]), Bound::Unbounded).expect("it is not empty");
    rig.waits(2, Claim::Range(from));
    let to = KeyRange::new(Bound::Unbounded, Bound::Included(&[10])).expect("it is not empty");
    rig.waits(3, Claim::Range(to));
    rig.release(0);
    assert!(rig.is_granted(2) && rig.is_granted(3));
}

#[test]
fn ranges_go_with_ranges_and_points_with_points() {
    let mut rig = Rig::new();
    rig.holds(0, range(1, 9));
    rig.holds(1, range(5, 15));
    rig.holds(2, range(1, 9));
    rig.holds(3, point(20));
    rig.holds(4, point(20));
    rig.waits(5, range(18, 25));
    assert_eq!(rig.edges(5), [3, 4]);
    rig.release(3);
    assert!(!rig.is_granted(5));
    rig.release(4);
    assert!(rig.is_granted(5));
}

#[test]
fn one_s_own_claims_are_no_obstacle() {
    let mut rig = Rig::new();
    rig.holds(0, range(1, 9));
    rig.holds(0, point(5));
    rig.holds(0, range(4, 6));
    rig.waits(1, point(5));
    rig.waits(2, range(5, 5));
    rig.release(0);
    // The insert came first, and the range waits for it now.
    assert!(rig.is_granted(1) && !rig.is_granted(2));
    rig.release(1);
    assert!(rig.is_granted(2));
}

#[test]
fn a_range_that_waits_is_not_overtaken_by_inserts_into_it() {
    let mut rig = Rig::new();
    rig.holds(0, point(5));
    rig.waits(1, range(1, 9));
    rig.waits(2, point(6));
    rig.holds(3, point(10));
    assert_eq!(rig.edges(2), [1]);
    assert_eq!(rig.space.request(rig.owners[4].0, point(7), None), Answer::Refused);
    rig.release(0);
    assert!(rig.is_granted(1) && !rig.is_granted(2));
    rig.release(1);
    assert!(rig.is_granted(2));
}

#[test]
fn an_insert_that_waits_is_not_overtaken_by_ranges_around_it() {
    let mut rig = Rig::new();
    rig.holds(0, range(1, 9));
    rig.waits(1, point(5));
    rig.waits(2, range(5, 7));
    rig.holds(3, range(6, 7));
    rig.release(0);
    assert!(rig.is_granted(1) && !rig.is_granted(2));
}

#[test]
fn a_holder_does_not_queue_behind_its_waiter() {
    let mut rig = Rig::new();
    rig.holds(0, range(1, 9));
    rig.waits(1, point(5));
    rig.holds(0, range(4, 12));
    rig.release(0);
    assert!(rig.is_granted(1));
    rig.waits(2, range(1, 9));
    rig.holds(1, point(6));
    rig.release(1);
    assert!(rig.is_granted(2));
}

#[test]
fn a_victim_s_leaving_lets_in_who_waited_behind_it() {
    let mut rig = Rig::new();
    rig.holds(0, range(1, 5));
    rig.waits(1, point(5));
    rig.waits(2, range(5, 6));
    rig.space.mark_for_abort(rig.owners[1].0).wake();
    assert_eq!(rig.owners[1].1.spin(1), Some(Outcome::MarkedForAbort));
    assert!(rig.is_granted(2));
    rig.release(0);
    rig.release(2);
    assert!(rig.space.is_empty());
}

/// Random claims against the rules themselves.
#[test]
fn whatever_comes_the_space_keeps_its_word() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::new();
        for _ in 0..60 {
            let owner = random.usize(0..8);
            let waits = rig.space.waiting.iter().any(|waiter| waiter.owner == rig.owners[owner].0);
            match random.u32(0..8) {
                0 if waits => rig.space.mark_for_abort(rig.owners[owner].0).wake(),
                0 | 1 if !waits => rig.release(owner),
                2..5 if !waits => {
                    let low = random.u8(0..12);
                    let _ = rig.request(owner, &range(low, low + random.u8(0..4)));
                }
                5..8 if !waits => {
                    let _ = rig.request(owner, &point(random.u8(0..16)));
                }
                _ => {}
            }
            check(&rig, seed);
        }
        (0..8).for_each(|owner| {
            rig.space.mark_for_abort(rig.owners[owner].0).wake();
        });
        (0..8).for_each(|owner| rig.release(owner));
        assert!(rig.space.is_empty(), "seed {seed}");
    }
}

fn check(rig: &Rig, seed: u64) {
    let RangeLocks { ranges, points, waiting } = &rig.space;
    for (reader, key_range) in ranges {
        for (key, writer) in points {
            assert!(reader == writer || !key_range.contains(key), "seed {seed}: {key_range:?} {key:?}");
        }
    }
    for (owner, (id, _)) in rig.owners.iter().enumerate() {
        let waits = waiting.iter().any(|waiter| waiter.owner == *id);
        assert_eq!(waits, !rig.edges(owner).is_empty(), "seed {seed}: a waiter has a blocker");
    }
}
