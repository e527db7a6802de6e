//! One lock's queue, step by step, on one thread.

use std::collections::HashSet;

use super::*;
use Mode::{Exclusive, IntentionExclusive, IntentionShared, Shared, SharedIntentionExclusive};

/// A queue, and owners with a signal each; owners are given by number.
struct Rig {
    queue: Queue,
    owners: Vec<(OwnerId, Arc<Signal>)>,
}

impl Rig {
    fn new() -> Rig {
        let owners = (0..8).map(|_| (OwnerId::new(), Arc::default()));
        Rig { queue: Queue::default(), owners: owners.collect() }
    }

    fn request(&mut self, owner: usize, mode: Mode) -> Answer {
        let (id, signal) = &self.owners[owner];
        signal.arm();
        self.queue.request(*id, mode, Some(signal))
    }

    fn holds(&mut self, owner: usize, mode: Mode) {
        assert_eq!(self.request(owner, mode), Answer::Granted);
    }

    fn waits(&mut self, owner: usize, mode: Mode) {
        assert_eq!(self.request(owner, mode), Answer::Queued);
    }

    fn release(&mut self, owner: usize) {
        self.queue.release(self.owners[owner].0).wake();
    }

    fn number(&self, id: OwnerId) -> usize {
        self.owners.iter().position(|(owner, _)| *owner == id).expect("it is one of ours")
    }

    /// The holders and their modes, by number.
    fn granted(&self) -> Vec<(usize, Mode)> {
        let mut granted: Vec<_> =
            self.queue.granted.iter().map(|&(id, mode)| (self.number(id), mode)).collect();
        granted.sort_unstable_by_key(|(owner, _)| *owner);
        granted
    }

    fn outcome(&self, owner: usize) -> Option<Outcome> {
        self.owners[owner].1.spin(1)
    }

    fn edges(&self, waiter: usize) -> Vec<(usize, usize)> {
        let mut edges = Vec::new();
        let mut report = |from, to| edges.push((self.number(from), self.number(to)));
        self.queue.edges(self.owners[waiter].0, &mut report);
        edges
    }
}

#[test]
fn every_pair_of_modes_goes_by_the_matrix() {
    for held in Mode::ALL {
        for wanted in Mode::ALL {
            let mut rig = Rig::new();
            rig.holds(0, held);
            let expected = if held.is_compatible(wanted) { Answer::Granted } else { Answer::Queued };
            assert_eq!(rig.request(1, wanted), expected, "{wanted:?} beside {held:?}");
            if expected == Answer::Queued {
                rig.release(0);
                assert_eq!(rig.outcome(1), Some(Outcome::Granted));
            }
            assert!(rig.granted().contains(&(1, wanted)));
        }
    }
}

#[test]
fn first_come_first_served() {
    let mut rig = Rig::new();
    rig.holds(0, Exclusive);
    for (owner, mode) in [(1, Shared), (2, Shared), (3, Exclusive), (4, Shared), (5, IntentionShared)] {
        rig.waits(owner, mode);
    }
    rig.release(0);
    assert_eq!(rig.granted(), [(1, Shared), (2, Shared)]);
    rig.release(1);
    assert_eq!(rig.granted(), [(2, Shared)]);
    rig.release(2);
    assert_eq!(rig.granted(), [(3, Exclusive)]);
    rig.release(3);
    assert_eq!(rig.granted(), [(4, Shared), (5, IntentionShared)]);
}

#[test]
fn a_newcomer_does_not_pass_by_who_waits() {
    let mut rig = Rig::new();
    rig.holds(0, Shared);
    rig.waits(1, Exclusive);
    rig.waits(2, Shared);
    assert_eq!(rig.queue.request(rig.owners[3].0, Shared, None), Answer::Refused);
    rig.release(0);
    assert_eq!(rig.granted(), [(1, Exclusive)]);
    assert_eq!(rig.outcome(2), None);
}

#[test]
fn a_refused_no_wait_request_leaves_no_trace_in_the_queue() {
    let mut rig = Rig::new();
    rig.holds(0, Exclusive);
    assert_eq!(rig.queue.request(rig.owners[1].0, Shared, None), Answer::Refused);
    assert!(rig.edges(1).is_empty());
    rig.release(0);
    assert!(rig.queue.is_empty());
}

#[test]
fn an_upgrade_goes_at_once_if_the_other_holders_let_it() {
    for (held, wanted) in [(Shared, Exclusive), (IntentionShared, SharedIntentionExclusive)] {
        let mut rig = Rig::new();
        rig.holds(0, held);
        rig.waits(1, Exclusive);
        rig.holds(0, wanted);
        assert_eq!(rig.granted(), [(0, wanted)]);
        assert_eq!(rig.outcome(1), None);
    }
    let mut rig = Rig::new();
    rig.holds(0, IntentionExclusive);
    rig.holds(0, Shared);
    assert_eq!(rig.granted(), [(0, SharedIntentionExclusive)]);
}

#[test]
fn an_upgrade_waits_for_holders_only_and_before_newcomers() {
    let mut rig = Rig::new();
    rig.holds(0, Shared);
    rig.holds(1, Shared);
    rig.waits(2, Exclusive);
    rig.waits(3, Shared);
    rig.waits(0, Exclusive);
    assert_eq!(rig.edges(0), [(0, 1)]);
    rig.release(1);
    assert_eq!(rig.granted(), [(0, Exclusive)]);
    rig.release(0);
    assert_eq!(rig.granted(), [(2, Exclusive)]);
}

#[test]
fn an_upgrade_does_not_wait_for_another_upgrade_s_place() {
    let mut rig = Rig::new();
    rig.holds(0, IntentionShared);
    rig.holds(1, IntentionShared);
    rig.holds(2, IntentionExclusive);
    rig.waits(0, Exclusive);
    rig.waits(1, Shared);
    rig.release(2);
    // 0 still waits for 1; 1 goes with 0's old mode, and waiting for it would be a deadlock of our own making.
    assert_eq!(rig.granted(), [(0, IntentionShared), (1, Shared)]);
    rig.release(1);
    assert_eq!(rig.granted(), [(0, Exclusive)]);
}

#[test]
fn two_upgrades_wait_for_each_other_until_one_is_marked_for_abort() {
    let mut rig = Rig::new();
    rig.holds(0, Shared);
    rig.holds(1, Shared);
    rig.waits(0, Exclusive);
    rig.waits(1, Exclusive);
    assert_eq!((rig.edges(0), rig.edges(1)), (vec![(0, 1)], vec![(1, 0)]));
    rig.queue.mark_for_abort(rig.owners[1].0).wake();
    assert_eq!(rig.outcome(1), Some(Outcome::MarkedForAbort));
    assert_eq!(
        rig.granted(),
        [(0, Shared), (1, Shared)],
        "the victim keeps what it held until it releases it"
    );
    rig.release(1);
    assert_eq!(rig.granted(), [(0, Exclusive)]);
}

#[test]
fn a_victim_s_leaving_lets_in_who_stood_behind_it() {
    let mut rig = Rig::new();
    rig.holds(0, Shared);
    rig.waits(1, Exclusive);
    rig.waits(2, Shared);
    rig.queue.mark_for_abort(rig.owners[1].0).wake();
    assert_eq!(rig.granted(), [(0, Shared), (2, Shared)]);
    assert_eq!(rig.outcome(2), Some(Outcome::Granted));
}

#[test]
fn edges_lead_to_holders_and_to_those_in_front() {
    let mut rig = Rig::new();
    rig.holds(0, Shared);
    rig.holds(1, Shared);
    rig.waits(2, Exclusive);
    rig.waits(3, Shared);
    rig.waits(4, Exclusive);
    rig.waits(0, Exclusive);
    assert_eq!(
        rig.edges(4),
        [(4, 3), (4, 2), (4, 0), (4, 0), (4, 1), (3, 2), (2, 0), (2, 1), (2, 0), (0, 1)],
        "from the waiter to all in front and to holders; the same for the others, from the back; then upgrades"
    );
    assert_eq!(rig.edges(3)[0], (3, 2), "its mode goes with the holders': it waits for its turn only");
    assert!(rig.edges(1).is_empty() && rig.edges(5).is_empty());
}

/// Random requests against the rules themselves.
#[test]
fn whatever_comes_the_queue_keeps_its_word() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::new();
        for _ in 0..60 {
            let owner = random.usize(0..8);
            let waits = rig.queue.waiting.iter().any(|waiter| waiter.owner == rig.owners[owner].0);
            match random.u32(0..4) {
                0 if waits => rig.queue.mark_for_abort(rig.owners[owner].0).wake(),
                1 if !waits => rig.release(owner),
                _ if !waits => {
                    let _ = rig.request(owner, Mode::ALL[random.usize(0..5)]);
                }
                _ => {}
            }
            check(&rig, seed);
        }
    }
}

fn check(rig: &Rig, seed: u64) {
    let Queue { granted, waiting } = &rig.queue;
    for (at, (owner, mode)) in granted.iter().enumerate() {
        for (other, other_mode) in &granted[at + 1..] {
            assert!(owner != other && mode.is_compatible(*other_mode), "seed {seed}: {granted:?}");
        }
    }
    assert!(waiting.is_sorted_by_key(|waiter| !waiter.request.upgrade), "seed {seed}: upgrades come first");
    for (at, waiter) in waiting.iter().enumerate() {
        let blocked = !rig.queue.goes_with_holders(waiter.owner, waiter.request.mode);
        assert!(blocked || at > 0 && !waiter.request.upgrade, "seed {seed}: a waiter without a blocker");
        let number = rig.number(waiter.owner);
        let direct: HashSet<usize> =
            rig.edges(number).into_iter().filter(|(from, _)| *from == number).map(|(_, to)| to).collect();
        assert_eq!(direct, blockers(rig, at), "seed {seed}: whom {number} waits for, without detours");
        let holds = granted.iter().any(|(owner, _)| *owner == waiter.owner);
        assert_eq!(holds, waiter.request.upgrade, "seed {seed}");
    }
}

/// By the rules: holders whose mode does not go with the waiter's, and for a newcomer everybody in front.
fn blockers(rig: &Rig, at: usize) -> HashSet<usize> {
    let Queue { granted, waiting } = &rig.queue;
    let Waiter { owner, request, .. } = &waiting[at];
    let holders =
        granted.iter().filter(|(holder, held)| holder != owner && !held.is_compatible(request.mode));
    let front = if request.upgrade { 0 } else { at };
    let all = holders.map(|(holder, _)| *holder).chain(waiting[..front].iter().map(|other| other.owner));
    all.map(|id| rig.number(id)).collect()
}
