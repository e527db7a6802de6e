//! Rounds: how many calls they have, what of them is timed, and that nothing of them is lost.

use heddledb::{Database, Durability, Options, ProtocolKind, SplitOperation, key};

use super::super::Settings;
use super::super::interval::Interval;
use super::*;
use crate::debit_credit::DebitCredit;
use crate::driver::arrivals::Arrivals;
use crate::like::Like;
use crate::workload::Workload;

const CALLS: u64 = 128;

/// Executes calls, half of which fail if `bad`, in rounds of this many, and gives what was recorded.
fn executed_in_rounds(in_flight: usize, round: usize, bad: bool) -> Recorder {
    let bank = DebitCredit {
        branches: 1,
        accounts_per_branch: 100,
        bad_percent: if bad { 50.0 } else { 0.0 },
        ..DebitCredit::default()
    };
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    bank.load(&db).unwrap();
    let settings = settings(in_flight);
    with_loop(&db, &bank, &settings, None, |mut this| {
        while !this.ended {
            this.round = round;
            this.turn(Instant::now()).unwrap();
        }
        this.finish().unwrap()
    })
}

fn settings(in_flight: usize) -> Settings {
    Settings {
        path: CallPath::OwnCalls { in_flight },
        transactions: Some(CALLS),
        seconds: 3_600.0,
        ..Settings::default()
    }
}

fn with_loop<T>(
    db: &Database,
    workload: &dyn Workload,
    settings: &Settings,
    arrivals: Option<Arrivals>,
    act: impl FnOnce(Loop<'_>) -> T,
) -> T {
    let bound = workload.bind(db, 1).unwrap();
    let context = Context {
        interface: None,
        db,
        bound: bound.as_ref(),
        settings,
        interval: Interval::start(settings, false),
        arrivals,
        acknowledgements: None,
    };
    act(Loop::new(&context, 0).unwrap())
}

/// The calls of rounds whose calls took this long each.
fn planned(in_flight: usize, each: Duration, arrivals: Option<Arrivals>, durability: Durability) -> usize {
    let bank = DebitCredit { branches: 1, accounts_per_branch: 100, ..DebitCredit::default() };
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path(), Options::default().durability(durability)).unwrap();
    bank.load(&db).unwrap();
    with_loop(&db, &bank, &settings(in_flight), arrivals, |mut this| {
        this.generator.fill(&mut this.calls, 10).unwrap();
        this.plan_round(this.begun + each * 10);
        this.round
    })
}

#[test]
fn short_calls_that_wait_for_no_log_are_executed_in_rounds_of_whole_groups() {
    let (short, long) = (Duration::from_nanos(999), Duration::from_micros(1));
    let planned_at_once = |in_flight, each| planned(in_flight, each, None, Durability::None);
    assert_eq!([1, 5, 32, 100].map(|in_flight| planned_at_once(in_flight, short)), [32, 30, 32, 100]);
    assert_eq!([1, 5, 32].map(|in_flight| planned_at_once(in_flight, long)), [1, 5, 32]);
    assert_eq!(planned(1, short, Some(Arrivals::new(1_000.0, 1)), Durability::None), 1);
    assert_eq!(planned(1, short, None, Durability::Group), 1);
    assert_eq!(planned(1, short, None, Durability::Async), 32);
}

#[test]
fn stashed_calls_of_a_round_have_timings_of_their_own() {
    let likes = Like { users: 1, pages: 1, ..Like::default() };
    let options = Options::default().durability(Durability::None).protocol(ProtocolKind::Phased);
    let db = Database::in_memory_with(options).unwrap();
    likes.load(&db).unwrap();
    let page = db.table("page").unwrap();
    db.split(&page, key![1], "likes", SplitOperation::ADD).unwrap();
    for in_flight in [1, 4] {
        let settings = Settings { transactions: None, ..settings(in_flight) };
        with_loop(&db, &likes, &settings, None, |mut this| {
            let (mut rounds, mut seen) = (0, 0);
            while seen < 3 {
                this.round = 32;
                seen += usize::from(timings_of_a_round_with_stashed_calls(&mut this));
                rounds += 1;
                assert!(rounds < 1_000_000, "no round with stashed calls and a timed group");
            }
            this.finish().unwrap();
        });
    }
}

/// Makes a round. Whether calls of it were stashed, and a group was timed.
fn timings_of_a_round_with_stashed_calls(this: &mut Loop<'_>) -> bool {
    let now = Instant::now();
    this.calls.begin(Duration::ZERO);
    if this.waiting.has_room(&mut this.recorder).unwrap() {
        this.make(now).unwrap();
    }
    let made = this.calls.made().len();
    let timed = this.execute();
    let mut group = this.waiting.new_group();
    this.count(&mut group);
    let stashed: Vec<_> =
        this.special.iter().filter(|place| this.results[**place].is_stashed()).copied().collect();
    for place in &stashed {
        let timing = this.timing_of_special(now, timed, *place).expect("a timing");
        assert_eq!((timing.arrival, timing.weight), (now, 1));
    }
    if let Some(timed) = timed {
        let weights = this.places_of(timed).map(|place| this.timing_of(timed, place).weight);
        assert_eq!(weights.sum::<u64>() as usize + stashed.len(), made);
        assert!(!this.places_of(timed).any(|place| stashed.contains(&place)));
    }
    this.keep_special(now, timed, &mut group);
    this.results.clear();
    this.waiting.push(group);
    timed.is_some() && !stashed.is_empty()
}

#[test]
fn of_a_round_the_first_group_is_timed_and_stands_for_all() {
    for (in_flight, round) in [(1, 32), (4, 32), (32, 32), (1, 1)] {
        let recorder = executed_in_rounds(in_flight, round, false);
        assert_eq!(recorder.by_procedure[0].committed, CALLS);
        let counts = recorder.write_latency.iter_recorded().map(|at| at.count_at_value()).collect::<Vec<_>>();
        let each = (round / in_flight) as u64;
        assert!(counts.iter().all(|count| count % each == 0), "{in_flight} in rounds of {round}");
        assert_eq!(counts.iter().sum::<u64>(), CALLS, "{in_flight} in rounds of {round}");
    }
}

#[test]
fn calls_of_a_round_that_fail_are_counted_and_timed_likewise() {
    let recorder = executed_in_rounds(1, 32, true);
    let counts = &recorder.by_procedure[0];
    assert_eq!(counts.committed + counts.failed, CALLS);
    assert!(counts.committed > 0 && counts.failed > 0);
    let one_by_one = executed_in_rounds(1, 1, true);
    assert_eq!(one_by_one.by_procedure[0].failed, counts.failed);
    assert_eq!((recorder.write_latency.len(), one_by_one.write_latency.len()), (CALLS, CALLS));
}
