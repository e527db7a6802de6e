//! Order, bounds and acknowledgements of what waits, with results whose end the test decides.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use heddledb::{Database, Durability, Options};

use super::super::interval::Interval;
use super::super::{Acknowledgements, Settings, read_acknowledgements};
use super::*;
use crate::incr::Increment;
use crate::workload::{Bound, Workload};

/// A result whose epoch the test decides, and which is released when the shared epoch has come so far. It counts
/// how often it is asked.
struct Fake {
    epoch: Rc<Cell<u64>>,
    durable: Rc<Cell<u64>>,
    asked: Rc<Cell<u32>>,
    result: heddledb::Result<Output>,
}

impl Delayed for Fake {
    fn attempts(&self) -> u32 {
        2
    }

    fn is_released(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.epoch.get() != 0 && self.epoch.get() <= self.durable.get()
    }

    fn wait(self) -> heddledb::Result<Output> {
        self.result
    }
}

/// State that the results of one test share.
struct Rig {
    durable: Rc<Cell<u64>>,
    asked: Rc<Cell<u32>>,
    db: Database,
    bound: Box<dyn Bound>,
    settings: Settings,
}

impl Rig {
    fn new() -> Self {
        let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
        let workload = Increment { keys: 2, ..Increment::one_hot() };
        workload.load(&db).unwrap();
        let bound = workload.bind(&db, 1).unwrap();
        let (durable, asked) = (Rc::default(), Rc::default());
        Self { durable, asked, db, bound, settings: Settings::default() }
    }

    fn context(&self, acknowledgements: Option<Acknowledgements>) -> Context<'_> {
        Context {
            interface: None,
            db: &self.db,
            bound: self.bound.as_ref(),
            settings: &self.settings,
            interval: Interval::start(&self.settings, false),
            arrivals: None,
            acknowledgements,
        }
    }

    fn fake(&self, epoch: u64) -> (Fake, Rc<Cell<u64>>) {
        let epoch = Rc::new(Cell::new(epoch));
        let (durable, asked) = (Rc::clone(&self.durable), Rc::clone(&self.asked));
        (Fake { epoch: Rc::clone(&epoch), durable, asked, result: Ok(Output::default()) }, epoch)
    }
}

fn single(executed: Fake, line: &str) -> Single<Fake> {
    let timing = Some(Timing { arrival: Instant::now(), released: None, weight: 1 });
    Single { executed, procedure: 0, marks: 1, timing, line: line.to_owned() }
}

/// A group of this many calls of this epoch.
fn group(waiting: &mut Waiting<'_, Fake>, rig: &Rig, epoch: u64, calls: u32) -> Group<Fake> {
    let mut group = waiting.new_group();
    (0..calls).for_each(|_| group.tally.add(0, 1, 0));
    group.epoch = epoch;
    group.newest = Some(rig.fake(epoch).0);
    group
}

#[test]
fn groups_are_released_in_order_when_their_epoch_is_durable() {
    let rig = Rig::new();
    let context = rig.context(None);
    let (mut waiting, mut recorder) = (Waiting::new(&context, 1), Recorder::new(1));
    for epoch in [1, 3, 2] {
        let group = group(&mut waiting, &rig, epoch, 10);
        waiting.push(group);
    }
    let counted = |waiting: &mut Waiting<'_, Fake>, recorder: &mut Recorder, durable| {
        waiting.take_released(durable, Instant::now(), recorder).unwrap();
        (recorder.by_procedure[0].committed, recorder.marks, waiting.released)
    };
    assert_eq!(counted(&mut waiting, &mut recorder, 0), (0, 0, 0));
    assert_eq!(counted(&mut waiting, &mut recorder, 2), (10, 10, 10));
    assert_eq!(counted(&mut waiting, &mut recorder, 3), (30, 30, 30));
}

#[test]
fn calls_put_off_hold_nobody_up_and_are_counted_with_their_own_latency() {
    let rig = Rig::new();
    let context = rig.context(None);
    let (mut waiting, mut recorder) = (Waiting::new(&context, 1), Recorder::new(1));
    let (fake, epoch) = rig.fake(0);
    waiting.defer(single(fake, ""));
    let group = group(&mut waiting, &rig, 5, 10);
    waiting.push(group);
    waiting.take_released(5, Instant::now(), &mut recorder).unwrap();
    assert_eq!((recorder.marks, waiting.has_deferred()), (10, true));
    std::thread::sleep(Duration::from_millis(3));
    // Decided, and not yet durable.
    epoch.set(7);
    waiting.take_released(6, Instant::now(), &mut recorder).unwrap();
    assert!(waiting.has_deferred());
    rig.durable.set(7);
    waiting.take_released(7, Instant::now(), &mut recorder).unwrap();
    assert_eq!((recorder.marks, waiting.released, waiting.has_deferred()), (11, 11, false));
    assert_eq!(recorder.by_procedure[0].retries, 1);
    assert!(recorder.write_latency.max() >= 3_000_000);
}

#[test]
fn a_round_looks_at_few_of_many_calls_put_off_and_misses_none() {
    let rig = Rig::new();
    let context = rig.context(None);
    let (mut waiting, mut recorder) = (Waiting::new(&context, 1), Recorder::new(1));
    let epochs: Vec<_> = (0..100)
        .map(|_| {
            let (fake, epoch) = rig.fake(0);
            waiting.defer(single(fake, ""));
            epoch
        })
        .collect();
    waiting.look_at_deferred(&mut recorder).unwrap();
    assert_eq!(rig.asked.get(), LOOKS as u32);
    // One in the middle is decided: it is found within a tour.
    epochs[50].set(1);
    rig.durable.set(1);
    (0..100 / LOOKS).for_each(|_| waiting.look_at_deferred(&mut recorder).unwrap());
    assert_eq!(recorder.marks, 1);
    // All are: one round takes them.
    epochs.iter().for_each(|epoch| epoch.set(1));
    waiting.look_at_deferred(&mut recorder).unwrap();
    assert_eq!((recorder.marks, waiting.has_deferred()), (100, false));
}

#[test]
fn both_queues_are_bounded() {
    let rig = Rig::new();
    let context = rig.context(None);
    let (mut waiting, mut recorder) = (Waiting::new(&context, 1), Recorder::new(1));
    for _ in 0..MOST_GROUPS + 10 {
        assert!(waiting.has_room(&mut recorder).unwrap());
        let group = group(&mut waiting, &rig, 9, 1);
        waiting.push(group);
    }
    assert_eq!((waiting.groups.len(), recorder.marks), (MOST_GROUPS, 10));
    (0..MOST_DEFERRED).for_each(|_| waiting.defer(single(rig.fake(0).0, "")));
    assert!(!waiting.has_room(&mut recorder).unwrap());
    waiting.release_all(&mut recorder).unwrap();
    assert_eq!(recorder.marks, MOST_GROUPS as u64 + 10);
}

#[test]
fn only_what_is_committed_and_released_is_acknowledged() {
    let rig = Rig::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("acks");
    let context = rig.context(Some(Acknowledgements::open(&path).unwrap()));
    let (mut waiting, mut recorder) = (Waiting::new(&context, 1), Recorder::new(1));
    let mut group = group(&mut waiting, &rig, 1, 1);
    group.lines.push_str("tallied\n");
    let (mut failed, _) = rig.fake(1);
    failed.result = Err(heddledb::fail("no"));
    group.special.push(single(failed, "failed\n"));
    group.special.push(single(rig.fake(1).0, "decided late\n"));
    waiting.push(group);
    waiting.take_released(0, Instant::now(), &mut recorder).unwrap();
    assert_eq!(read_acknowledgements(&path).unwrap(), Vec::<String>::new());
    waiting.take_released(1, Instant::now(), &mut recorder).unwrap();
    assert_eq!(read_acknowledgements(&path).unwrap(), ["tallied", "decided late"]);
    assert_eq!((recorder.by_procedure[0].failed, recorder.marks, waiting.released), (1, 2, 3));
}

#[test]
fn an_error_of_the_engine_ends_the_run() {
    let rig = Rig::new();
    let context = rig.context(None);
    let (mut waiting, mut recorder) = (Waiting::new(&context, 1), Recorder::new(1));
    let mut group = group(&mut waiting, &rig, 1, 1);
    group.newest.as_mut().unwrap().result = Err(heddledb::Error::Closed);
    waiting.push(group);
    assert!(waiting.release_all(&mut recorder).is_err());
    assert_eq!(recorder.marks, 0, "whether it has committed is unknown");
}
