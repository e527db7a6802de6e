//! The lock table against a model that knows nothing of entries: a list of who holds and who waits.

use super::*;

type Task = u32;

fn identifier(text: &str) -> Identifier {
    Identifier { table: Some(1), key: text.as_bytes().into() }
}

/// A want: a letter's beginning of a key; upper case: alone; four letters are a whole key; `*` is everything.
fn want(text: &str) -> Want {
    if text == "*" {
        return Want::of_everything();
    }
    let lower = text.to_lowercase();
    Want { identifier: identifier(&lower), whole: text.len() == 4, exclusive: text != lower, place: None }
}

fn wants(text: &str) -> Vec<Want> {
    text.split_whitespace().map(want).collect()
}

#[derive(Default)]
struct Rig {
    locks: LocalLocks<Task>,
    owners: Vec<OwnerId>,
    /// Who waits for whom, as it was told.
    waiting: Vec<(usize, Vec<usize>)>,
}

impl Rig {
    fn owner(&mut self, number: usize) -> OwnerId {
        while self.owners.len() <= number {
            self.owners.push(OwnerId::new());
        }
        self.owners[number]
    }

    fn ask_as(&mut self, number: usize, text: &str, brief: bool) -> Result<(), Vec<usize>> {
        let owner = self.owner(number);
        match self.locks.ask(Request {
            owner,
            start_timestamp: number as u64,
            wants: wants(text),
            brief,
            task: number as Task,
        }) {
            Answer::Granted(task) => {
                assert_eq!(task, number as Task);
                Ok(())
            }
            Answer::Parked(waiting) => Err(self.note(waiting)),
        }
    }

    fn number(&self, owner: OwnerId) -> usize {
        self.owners.iter().position(|one| *one == owner).expect("a known owner")
    }

    /// Notes whom somebody waits for; in order.
    fn note(&mut self, waiting: Waiting) -> Vec<usize> {
        let mut blockers: Vec<usize> = waiting.blockers.iter().map(|&owner| self.number(owner)).collect();
        blockers.sort_unstable();
        let number = self.number(waiting.owner);
        assert_eq!(waiting.start_timestamp, number as u64);
        self.waiting.retain(|(other, _)| *other != number);
        self.waiting.push((number, blockers.clone()));
        blockers
    }

    fn freed(&mut self, freed: Freed<Task>) -> Vec<Task> {
        freed.waiting.into_iter().for_each(|waiting| _ = self.note(waiting));
        freed.granted.into_iter().map(|(_, task)| task).collect()
    }

    /// Everybody who can be reached from one who waits, over those who wait in between.
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

    fn ask(&mut self, number: usize, text: &str) -> Result<(), Vec<usize>> {
        self.ask_as(number, text, false)
    }

    fn release(&mut self, number: usize) -> Vec<Task> {
        let owner = self.owner(number);
        let freed = self.locks.release(owner);
        self.freed(freed)
    }

    fn cancel(&mut self, number: usize) -> (Option<Task>, Vec<Task>) {
        let owner = self.owner(number);
        let (task, freed) = self.locks.cancel(owner);
        (task, self.freed(freed))
    }
}

#[test]
fn readers_share_and_writers_wait_for_the_beginning_and_the_end_of_a_key() {
    let mut rig = Rig::default();
    assert_eq!(rig.ask(0, "abcd"), Ok(()));
    assert_eq!(rig.ask(1, "ab"), Ok(()));
    assert_eq!(rig.ask(2, "ABCE"), Err(vec![1]), "the prefix is read");
    assert_eq!(rig.ask(3, "A"), Err(vec![0, 1, 2]));
    assert_eq!(rig.ask(4, "acba"), Err(vec![3]));
    assert_eq!(rig.ask(5, "bbbb"), Ok(()));
    assert_eq!(rig.ask(6, "*"), Err(vec![0, 1, 2, 3, 4, 5]), "of each identifier the nearest");
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
    assert_eq!(rig.ask(0, "aaaa"), Ok(()));
    assert_eq!(rig.ask(1, "AAAA bbbb"), Err(vec![0]));
    assert_eq!(rig.ask(2, "aaaa"), Err(vec![1]), "it could share, and waits in its turn");
    assert_eq!(rig.ask(3, "BBBB"), Err(vec![1]));
    assert_eq!(rig.ask(4, "cccc"), Ok(()));
    assert_eq!(rig.release(0), [1]);
    assert_eq!(rig.release(1), [2, 3]);
}

#[test]
fn who_holds_what_is_waited_for_does_not_wait_behind_it() {
    let mut rig = Rig::default();
    assert_eq!(rig.ask(0, "aaaa"), Ok(()));
    assert_eq!(rig.ask(1, "AAAA"), Err(vec![0]));
    assert_eq!(rig.ask(0, "AAAA"), Ok(()), "it is alone with it, and gets it alone");
    assert_eq!(rig.ask(2, "aaaa"), Err(vec![1]));
    assert_eq!(rig.release(0), [1]);
    assert_eq!(rig.release(1), [2]);
    rig.release(2);
    assert_eq!((rig.ask(3, "aaaa"), rig.ask(4, "aaaa")), (Ok(()), Ok(())));
    assert_eq!(rig.ask(3, "AAAA"), Err(vec![4]));
    assert_eq!(rig.ask(4, "AAAA"), Err(vec![3]), "a circle, which is the detector's business");
    assert_eq!(rig.cancel(4), (Some(4), vec![]));
    assert_eq!(rig.release(4), [3]);
    rig.release(3);
    assert!(rig.locks.is_idle());
}

#[test]
fn what_is_brief_holds_nothing_and_lets_those_behind_it_go_on() {
    let mut rig = Rig::default();
    assert_eq!(rig.ask_as(0, "AAAA", true), Ok(()));
    assert!(rig.locks.is_idle());
    assert_eq!(rig.ask(1, "aaaa"), Ok(()));
    assert_eq!(rig.ask_as(2, "AAAA BBBB", true), Err(vec![1]));
    assert_eq!(rig.ask_as(3, "BBBB", true), Err(vec![2]));
    assert_eq!(rig.ask(4, "bbbb"), Err(vec![3]), "and so for those before it");
    assert_eq!(rig.release(1), [2, 3, 4], "in the order of arrival");
    rig.release(4);
    assert!(rig.locks.is_idle());
}

#[test]
fn who_is_taken_out_lets_others_go_on() {
    let mut rig = Rig::default();
    assert_eq!(rig.ask(0, "aaaa"), Ok(()));
    assert_eq!(rig.ask(1, "AAAA BBBB"), Err(vec![0]));
    assert_eq!(rig.ask(2, "bbbb"), Err(vec![1]));
    let owner = rig.owner(1);
    assert_eq!(rig.locks.parked_task(owner), Some(&1));
    assert_eq!(rig.cancel(1), (Some(1), vec![2]));
    assert_eq!(rig.cancel(1), (None, vec![]));
    assert_eq!(rig.locks.parked_task(owner), None);
    rig.release(0);
    rig.release(2);
    assert!(rig.locks.is_idle() && rig.locks.beginnings.is_empty());
}

/// The rules themselves, over lists.
#[derive(Default)]
struct Model {
    held: Vec<(usize, Vec<Want>)>,
    parked: Vec<(usize, Vec<Want>, bool)>,
}

impl Model {
    fn conflict(one: &[Want], other: &[Want]) -> bool {
        one.iter().any(|one| other.iter().any(|other| one.conflicts(other)))
    }

    fn blockers(&self, number: usize, wants: &[Want], before: usize) -> Vec<usize> {
        let own: Vec<Want> = self
            .held
            .iter()
            .filter(|(owner, _)| *owner == number)
            .flat_map(|(_, wants)| wants.clone())
            .collect();
        let holders =
            self.held.iter().filter(|(_, held)| Model::conflict(wants, held)).map(|(owner, _)| *owner);
        let waiters = self.parked[..before]
            .iter()
            .filter(|(_, waiting, _)| Model::conflict(wants, waiting) && !Model::conflict(&own, waiting));
        let mut blockers: Vec<usize> = holders.chain(waiters.map(|(owner, ..)| *owner)).collect();
        blockers.retain(|owner| *owner != number);
        blockers.sort_unstable();
        blockers.dedup();
        blockers
    }

    fn ask(&mut self, number: usize, wants: Vec<Want>, brief: bool) -> Result<(), Vec<usize>> {
        let blockers = self.blockers(number, &wants, self.parked.len());
        if !blockers.is_empty() {
            self.parked.push((number, wants, brief));
            return Err(blockers);
        }
        if !brief {
            self.held.push((number, wants));
        }
        Ok(())
    }

    fn settle(&mut self) -> Vec<Task> {
        let mut granted = Vec::new();
        let mut at = 0;
        while at < self.parked.len() {
            let (number, wants, brief) = self.parked[at].clone();
            if !self.blockers(number, &wants, at).is_empty() {
                at += 1;
                continue;
            }
            self.parked.remove(at);
            granted.push(number as Task);
            if !brief {
                self.held.push((number, wants));
            }
        }
        granted
    }

    /// Whoever waits has been told to wait for somebody, and from there everybody can be reached for whom it waits.
    fn check_reach(&self, rig: &Rig, seed: u64) {
        for (at, (number, wants, _)) in self.parked.iter().enumerate() {
            let (blockers, reached) = (self.blockers(*number, wants, at), rig.reached(*number));
            assert!(blockers.iter().all(|blocker| reached.contains(blocker)), "seed {seed}");
            let (_, named) = rig.waiting.iter().find(|(other, _)| other == number).expect("it was told");
            assert!(named.iter().all(|named| blockers.contains(named)), "seed {seed}");
        }
    }

    fn release(&mut self, number: usize) -> Vec<Task> {
        self.held.retain(|(owner, _)| *owner != number);
        self.settle()
    }
}

fn random_wants(random: &mut fastrand::Rng) -> String {
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

/// Owners may ask again while they hold (phases), and are taken out when they are in a circle.
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
                    let (text, brief) = (random_wants(&mut random), random.u32(..3) == 0);
                    let expected = model.ask(next, wants(&text), brief);
                    assert_eq!(rig.ask_as(next, &text, brief).is_ok(), expected.is_ok(), "seed {seed}");
                    next += 1;
                }
                4..6 if !running.is_empty() => {
                    let (owner, text) = (running[random.usize(..running.len())], random_wants(&mut random));
                    let expected = model.ask(owner, wants(&text), false);
                    assert_eq!(rig.ask(owner, &text).is_ok(), expected.is_ok(), "seed {seed}");
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
