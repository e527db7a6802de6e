//! The lock table against a model without entries: a list of held locks and a list of waiting requests.

use super::*;

type Task = u32;

fn identifier(text: &str) -> Identifier {
    Identifier { table: Some(1), key: text.as_bytes().into() }
}

/// A lock in short: letters are a prefix of a key, upper case is exclusive, four letters are a whole key, `*` is everything.
fn lock(text: &str) -> LocalLock {
    if text == "*" {
        return LocalLock::on_everything();
    }
    let lower = text.to_lowercase();
    LocalLock {
        identifier: identifier(&lower),
        whole: text.len() == 4,
        exclusive: text != lower,
        partition_hash: None,
    }
}

fn locks(text: &str) -> Vec<LocalLock> {
    text.split_whitespace().map(lock).collect()
}

#[derive(Default)]
struct Rig {
    locks: LocalLockTable<Task>,
    owners: Vec<OwnerId>,
    /// The reported edges.
    waiting: Vec<(usize, Vec<usize>)>,
}

impl Rig {
    fn owner(&mut self, number: usize) -> OwnerId {
        while self.owners.len() <= number {
            self.owners.push(OwnerId::new());
        }
        self.owners[number]
    }

    fn acquire_as(&mut self, number: usize, text: &str, instant: bool) -> Result<(), Vec<usize>> {
        let owner = self.owner(number);
        match self.locks.acquire(LockRequest {
            owner,
            start_timestamp: number as u64,
            locks: locks(text),
            instant,
            task: number as Task,
        }) {
            Acquired::Granted(task) => {
                assert_eq!(task, number as Task);
                Ok(())
            }
            Acquired::Parked(waiting) => Err(self.note(waiting)),
        }
    }

    fn number(&self, owner: OwnerId) -> usize {
        self.owners.iter().position(|one| *one == owner).expect("a known owner")
    }

    /// Records the blockers of an owner, in order.
    fn note(&mut self, waiting: Waiting) -> Vec<usize> {
        let mut blockers: Vec<usize> = waiting.blockers.iter().map(|&owner| self.number(owner)).collect();
        blockers.sort_unstable();
        let number = self.number(waiting.owner);
        assert_eq!(waiting.start_timestamp, number as u64);
        self.waiting.retain(|(other, _)| *other != number);
        self.waiting.push((number, blockers.clone()));
        blockers
    }

    fn released(&mut self, released: Released<Task>) -> Vec<Task> {
        released.waiting.into_iter().for_each(|waiting| _ = self.note(waiting));
        released.granted.into_iter().map(|(_, task)| task).collect()
    }

    /// All owners that are reachable from a waiting one over the reported edges.
    fn reached(&self, number: usize) -> Vec<usize> {
        let (mut reached, mut next) = (Vec::new(), vec![number]);
        while let Some(one) = next.pop() {
            let blockers = self.waiting.iter().find(|(other, _)| *other == one).map_or(&[][..], |(_, to)| to);
            for &blocker in blockers {
                if !reached.contains(&blocker) {
                    reached.push(blocker);
                    next.push(blocker);
                }
            }
        }
        reached
    }

    fn acquire(&mut self, number: usize, text: &str) -> Result<(), Vec<usize>> {
        self.acquire_as(number, text, false)
    }

    fn release(&mut self, number: usize) -> Vec<Task> {
        let owner = self.owner(number);
        let released = self.locks.release(owner);
        self.released(released)
    }

    fn cancel(&mut self, number: usize) -> (Option<Task>, Vec<Task>) {
        let owner = self.owner(number);
        let (task, released) = self.locks.cancel(owner);
        (task, self.released(released))
    }
}

#[test]
fn readers_share_and_writers_wait_for_prefixes_and_extensions_of_a_key() {
    let mut rig = Rig::default();
    assert_eq!(rig.acquire(0, "abcd"), Ok(()));
    assert_eq!(rig.acquire(1, "ab"), Ok(()));
    assert_eq!(rig.acquire(2, "ABCE"), Err(vec![1]), "the prefix is read");
    assert_eq!(rig.acquire(3, "A"), Err(vec![0, 1, 2]));
    assert_eq!(rig.acquire(4, "acba"), Err(vec![3]));
    assert_eq!(rig.acquire(5, "bbbb"), Ok(()));
    assert_eq!(rig.acquire(6, "*"), Err(vec![0, 1, 2, 3, 4, 5]), "of each identifier the nearest");
    assert_eq!(rig.release(1), [2]);
    assert_eq!(rig.release(0), Vec::<Task>::new());
    assert_eq!(rig.release(2), [3]);
    assert_eq!(rig.release(3), [4]);
    assert_eq!(rig.release(5), Vec::<Task>::new());
    assert_eq!(rig.release(4), [6]);
    assert!(!rig.locks.is_idle());
    assert_eq!(rig.release(6), Vec::<Task>::new());
    assert!(rig.locks.is_idle());
}

#[test]
fn a_later_request_never_overtakes_one_that_it_conflicts_with() {
    let mut rig = Rig::default();
    assert_eq!(rig.acquire(0, "aaaa"), Ok(()));
    assert_eq!(rig.acquire(1, "AAAA bbbb"), Err(vec![0]));
    assert_eq!(rig.acquire(2, "aaaa"), Err(vec![1]), "it could share, and waits in its turn");
    assert_eq!(rig.acquire(3, "BBBB"), Err(vec![1]));
    assert_eq!(rig.acquire(4, "cccc"), Ok(()));
    assert_eq!(rig.release(0), [1]);
    assert_eq!(rig.release(1), [2, 3]);
}

#[test]
fn an_owner_that_holds_the_blocking_lock_does_not_queue_behind_the_blocked_request() {
    let mut rig = Rig::default();
    assert_eq!(rig.acquire(0, "aaaa"), Ok(()));
    assert_eq!(rig.acquire(1, "AAAA"), Err(vec![0]));
    assert_eq!(rig.acquire(0, "AAAA"), Ok(()), "it is alone with it, and gets it alone");
    assert_eq!(rig.acquire(2, "aaaa"), Err(vec![1]));
    assert_eq!(rig.release(0), [1]);
    assert_eq!(rig.release(1), [2]);
    rig.release(2);
    assert_eq!((rig.acquire(3, "aaaa"), rig.acquire(4, "aaaa")), (Ok(()), Ok(())));
    assert_eq!(rig.acquire(3, "AAAA"), Err(vec![4]));
    assert_eq!(rig.acquire(4, "AAAA"), Err(vec![3]), "a cycle, which is the detector's business");
    assert_eq!(rig.cancel(4), (Some(4), vec![]));
    assert_eq!(rig.release(4), [3]);
    rig.release(3);
    assert!(rig.locks.is_idle());
}

#[test]
fn an_instant_request_holds_nothing_and_unblocks_those_behind_it() {
    let mut rig = Rig::default();
    assert_eq!(rig.acquire_as(0, "AAAA", true), Ok(()));
    assert!(rig.locks.is_idle());
    assert_eq!(rig.acquire(1, "aaaa"), Ok(()));
    assert_eq!(rig.acquire_as(2, "AAAA BBBB", true), Err(vec![1]));
    assert_eq!(rig.acquire_as(3, "BBBB", true), Err(vec![2]));
    assert_eq!(rig.acquire(4, "bbbb"), Err(vec![3]), "and so for those before it");
    assert_eq!(rig.release(1), [2, 3, 4], "in the order of arrival");
    rig.release(4);
    assert!(rig.locks.is_idle());
}

#[test]
fn a_canceled_request_unblocks_others() {
    let mut rig = Rig::default();
    assert_eq!(rig.acquire(0, "aaaa"), Ok(()));
    assert_eq!(rig.acquire(1, "AAAA BBBB"), Err(vec![0]));
    assert_eq!(rig.acquire(2, "bbbb"), Err(vec![1]));
    let owner = rig.owner(1);
    assert_eq!(rig.locks.parked_task(owner), Some(&1));
    assert_eq!(rig.cancel(1), (Some(1), vec![2]));
    assert_eq!(rig.cancel(1), (None, vec![]));
    assert_eq!(rig.locks.parked_task(owner), None);
    rig.release(0);
    rig.release(2);
    assert!(rig.locks.is_idle() && rig.locks.prefixes.is_empty());
}

/// The rules themselves, over lists.
#[derive(Default)]
struct Model {
    held: Vec<(usize, Vec<LocalLock>)>,
    parked: Vec<(usize, Vec<LocalLock>, bool)>,
}

impl Model {
    fn conflict(one: &[LocalLock], other: &[LocalLock]) -> bool {
        one.iter().any(|one| other.iter().any(|other| one.conflicts(other)))
    }

    fn blockers(&self, number: usize, locks: &[LocalLock], before: usize) -> Vec<usize> {
        let own: Vec<LocalLock> = self
            .held
            .iter()
            .filter(|(owner, _)| *owner == number)
            .flat_map(|(_, locks)| locks.clone())
            .collect();
        let holders =
            self.held.iter().filter(|(_, held)| Model::conflict(locks, held)).map(|(owner, _)| *owner);
        let waiters = self.parked[..before]
            .iter()
            .filter(|(_, waiting, _)| Model::conflict(locks, waiting) && !Model::conflict(&own, waiting));
        let mut blockers: Vec<usize> = holders.chain(waiters.map(|(owner, ..)| *owner)).collect();
        blockers.retain(|owner| *owner != number);
        blockers.sort_unstable();
        blockers.dedup();
        blockers
    }

    fn acquire(&mut self, number: usize, locks: Vec<LocalLock>, instant: bool) -> Result<(), Vec<usize>> {
        let blockers = self.blockers(number, &locks, self.parked.len());
        if !blockers.is_empty() {
            self.parked.push((number, locks, instant));
            return Err(blockers);
        }
        if !instant {
            self.held.push((number, locks));
        }
        Ok(())
    }

    fn settle(&mut self) -> Vec<Task> {
        let mut granted = Vec::new();
        let mut at = 0;
        while at < self.parked.len() {
            let (number, locks, instant) = self.parked[at].clone();
            if !self.blockers(number, &locks, at).is_empty() {
                at += 1;
                continue;
            }
            self.parked.remove(at);
            granted.push(number as Task);
            if !instant {
                self.held.push((number, locks));
            }
        }
        granted
    }

    /// From every waiting owner all its blockers are reachable over the reported edges.
    fn check_reach(&self, rig: &Rig, seed: u64) {
        for (at, (number, locks, _)) in self.parked.iter().enumerate() {
            let (blockers, reached) = (self.blockers(*number, locks, at), rig.reached(*number));
            assert!(blockers.iter().all(|blocker| reached.contains(blocker)), "seed {seed}");
            let (_, named) = rig.waiting.iter().find(|(other, _)| other == number).expect("it was edges");
            assert!(named.iter().all(|named| blockers.contains(named)), "seed {seed}");
        }
    }

    fn release(&mut self, number: usize) -> Vec<Task> {
        self.held.retain(|(owner, _)| *owner != number);
        self.settle()
    }
}

fn random_locks(random: &mut fastrand::Rng) -> String {
    let one = |random: &mut fastrand::Rng| {
        if random.u32(..60) == 0 {
            return "*".to_string();
        }
        let length = [4, 4, 4, 4, 2, 1][random.usize(..6)];
        let text: String = (0..length).map(|_| ['a', 'b'][random.usize(..2)]).collect();
        if random.bool() { text.to_uppercase() } else { text }
    };
    (0..random.usize(1..4)).map(|_| one(random)).collect::<Vec<_>>().join(" ")
}

/// Owners acquire more locks while they hold some (phases), and are canceled when they are in a cycle.
#[test]
fn it_grants_what_the_rules_grant() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut rig, mut model) = (Rig::default(), Model::default());
        let mut next = 0;
        for _ in 0..120 {
            let running: Vec<usize> = model
                .held
                .iter()
                .map(|(owner, _)| *owner)
                .filter(|owner| model.parked.iter().all(|(other, ..)| other != owner))
                .collect();
            match random.u32(..10) {
                0..4 => {
                    let (text, instant) = (random_locks(&mut random), random.u32(..3) == 0);
                    let expected = model.acquire(next, locks(&text), instant);
                    assert_eq!(rig.acquire_as(next, &text, instant).is_ok(), expected.is_ok(), "seed {seed}");
                    next += 1;
                }
                4..6 if !running.is_empty() => {
                    let (owner, text) = (running[random.usize(..running.len())], random_locks(&mut random));
                    let expected = model.acquire(owner, locks(&text), false);
                    assert_eq!(rig.acquire(owner, &text).is_ok(), expected.is_ok(), "seed {seed}");
                }
                6..9 if !running.is_empty() => {
                    let owner = running[random.usize(..running.len())];
                    let expected = model.release(owner);
                    assert_eq!(rig.release(owner), expected, "seed {seed}");
                }
                _ if !model.parked.is_empty() => {
                    let at = random.usize(..model.parked.len());
                    let (owner, ..) = model.parked.remove(at);
                    assert_eq!(rig.cancel(owner), (Some(owner as Task), model.settle()), "seed {seed}");
                }
                _ => {}
            }
            model.check_reach(&rig, seed);
        }
    }
}
