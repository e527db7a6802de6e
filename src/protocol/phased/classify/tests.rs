//! The classifier in simulated workloads, over many phases.

use super::simulation::{ADD, Kind, MAX, Simulation, candidate, operate, record, zipf};
use super::*;

const COLD: u64 = 900_000;

/// This percentage of the calls add to one record.
fn hot(percent: f64) -> Simulation {
    Simulation::new(&[Kind::new(percent / 100.0, 1, &[ADD])])
}

fn add_to(number: u64) -> Candidate {
    candidate(number, 1, Operation::Add)
}

/// A page's likes: some calls add to the most popular pages, the others read them.
fn like(alpha: f64, write_percent: f64) -> Simulation {
    let writes = write_percent / 100.0;
    let mut kinds = Vec::new();
    for (rank, share) in zipf(alpha, 30).into_iter().enumerate() {
        kinds.push(Kind::new(share * writes, rank as u64, &[ADD]));
        kinds.push(Kind::new(share * (1.0 - writes), rank as u64, &[Access::Record]));
    }
    Simulation::new(&kinds)
}

#[test]
fn a_record_with_a_tenth_of_the_calls_is_split_within_half_a_second_and_stays_split() {
    for conflict_class in [0.1, 0.2, 0.5] {
        for phase in [1, 5, 20, 100] {
            let mut simulation = hot(10.0);
            (simulation.conflict_class, simulation.phase) = (conflict_class, Duration::from_millis(phase));
            let (_, time) = simulation.until_split(&[add_to(1)]);
            assert!(
                time <= Duration::from_millis(300),
                "conflict class {conflict_class}, {phase} ms: {time:?}"
            );
            simulation.run_seconds(3);
            assert_eq!(simulation.seen.changes.len(), 1);
            assert_eq!(simulation.seen.changes[0].1.reason, Reason::Contended);
        }
    }
}

#[test]
fn a_uniform_workload_splits_nothing_in_spite_of_bursts() {
    let mut simulation = hot(0.0);
    simulation.stray = 0.001;
    for round in 0..20 {
        simulation.burst(500 + round, 2_000);
        simulation.run(Duration::from_millis(500));
    }
    assert!(simulation.seen.changes.is_empty());
    assert_eq!(simulation.seen.split_phases, 0);
}

#[test]
fn a_wrong_split_is_undone_at_once() {
    let mut simulation = hot(0.0);
    for _ in 0..4 {
        simulation.burst(7, 1_000);
        simulation.step();
    }
    simulation.run_seconds(1);
    let reasons: Vec<_> = simulation.seen.changes.iter().map(|(_, change)| change.reason).collect();
    assert_eq!(reasons, [Reason::Contended, Reason::FewWrites]);
    assert!(simulation.seen.split_phases <= 3);
}

#[test]
fn as_popularity_is_more_skewed_more_of_the_most_popular_are_split() {
    let mut before = 0;
    for alpha in [0.0, 0.4, 0.8, 1.0, 1.2, 1.4] {
        let kinds: Vec<Kind> = zipf(alpha, 40)
            .into_iter()
            .enumerate()
            .map(|(rank, share)| Kind::new(share, rank as u64, &[ADD]))
            .collect();
        let mut simulation = Simulation::new(&kinds);
        simulation.stray = 0.000_1;
        simulation.run_seconds(4);
        let split = simulation.split();
        let first: Vec<Candidate> = (0..split.len() as u64).map(add_to).collect();
        assert_eq!(split, first, "alpha {alpha}: the most popular ones");
        assert!(split.len() >= before, "alpha {alpha}: {} after {before}", split.len());
        assert_eq!(split.is_empty(), alpha < 0.9, "alpha {alpha}: {}", split.len());
        assert!(split.len() < 10);
        let changes = simulation.seen.changes.len();
        assert!(changes <= split.len() + 2, "alpha {alpha}: {changes} changes for {} columns", split.len());
        before = split.len();
    }
}

#[test]
fn the_hot_record_moves_and_is_found_again_within_half_a_second() {
    for percent in [10.0, 100.0] {
        let mut simulation = hot(percent);
        for number in 1..=4 {
            simulation.kinds[0].record = number;
            let (_, time) = simulation.until_split(&[add_to(number)]);
            assert!(time <= Duration::from_millis(500), "{percent} %: {time:?}");
            simulation.run_seconds(5);
        }
        assert_eq!(simulation.seen.changes.len(), 4 + 3);
    }
}

#[test]
fn one_record_gets_add_then_max_then_reads() {
    for in_flight in [2, 8, 4096] {
        let mut simulation = hot(100.0);
        simulation.in_flight = in_flight;
        simulation.until_split(&[add_to(1)]);
        simulation.run_seconds(5);
        simulation.kinds[0].accesses = vec![MAX];
        let (phases, _) = simulation.until_split(&[candidate(1, 1, Operation::Max)]);
        assert!(phases <= 6, "{in_flight} in flight: split for Max after {phases} phases");
        simulation.run_seconds(5);
        simulation.kinds[0].accesses = vec![Access::Record];
        let (phases, _) = simulation.until_split(&[]);
        assert!(phases <= 6, "{in_flight} in flight: not split after {phases} phases");
        let split_phases = simulation.seen.split_phases;
        simulation.run_seconds(5);
        assert_eq!(simulation.seen.split_phases, split_phases, "reads are no reason for a split phase");
        let reasons: Vec<_> = simulation.seen.changes.iter().map(|(_, change)| change.reason).collect();
        assert_eq!(
            reasons,
            [Reason::Contended, Reason::OtherOperation(Operation::Add), Reason::Stashes],
            "{in_flight} in flight"
        );
    }
}

#[test]
fn pages_are_split_when_half_of_the_calls_like_them_and_not_when_a_tenth_does() {
    for write_percent in [40.0, 50.0, 90.0] {
        let mut simulation = like(1.4, write_percent);
        simulation.run_seconds(3);
        assert!(simulation.split().contains(&add_to(0)), "{write_percent} % writes");
        let removed = (simulation.seen.changes.iter())
            .filter(|(_, change)| change.candidate == add_to(0) && change.reason != Reason::Contended)
            .count();
        assert_eq!(removed, 0, "{write_percent} % writes: the most popular page stays split");
        assert!(simulation.seen.stashed > 0);
    }
    for write_percent in [1.0, 10.0, 20.0] {
        let mut simulation = like(1.4, write_percent);
        simulation.run_seconds(5);
        assert_eq!(simulation.seen.split_phases, 0, "{write_percent} % writes");
    }
}

#[test]
fn a_split_that_makes_the_engine_slower_is_undone_and_retried_with_backoff() {
    let mut simulation = like(1.4, 50.0);
    simulation.stash_cost = 4.0;
    simulation.run_seconds(20);
    let slower = |reason| matches!(reason, Reason::Slower | Reason::Stashes);
    let given_up: Vec<Duration> = (simulation.seen.changes.iter())
        .filter(|(_, change)| change.candidate == add_to(0) && slower(change.reason))
        .map(|(when, _)| *when)
        .collect();
    assert!((3..=6).contains(&given_up.len()), "{given_up:?}");
    assert!(simulation.seen.split_phases < 100, "{} split phases of 20 ms", simulation.seen.split_phases);

    // No thread reads any more.
    simulation.kinds.retain(|kind| kind.accesses == [ADD]);
    simulation.run_seconds(17);
    assert!(simulation.split().contains(&add_to(0)), "it is tried again, and kept");
    let changes = simulation.seen.changes.len();
    simulation.run_seconds(5);
    assert_eq!(simulation.seen.changes.len(), changes);
}

#[test]
fn reads_that_cause_no_conflicts_are_found_by_their_stashes_and_the_split_is_tried_less_and_less() {
    // The reads wait for the record while it is split, but joined phases don't show them.
    let mut simulation = hot(8.0);
    simulation.conflict_class = 0.5;
    let mut failures = Vec::new();
    for _ in 0..10 {
        simulation.kinds.truncate(1);
        while !simulation.decision.worth_splitting && simulation.seen.joined_phases < 5_000 {
            simulation.step();
        }
        simulation.kinds.push(Kind::new(0.7, 1, &[Access::Record]));
        simulation.step();
        assert!(simulation.split().is_empty());
        failures.push(simulation.now);
    }
    let gaps: Vec<Duration> = failures.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[4] > 2 * gaps[0] && gaps[4] > Duration::from_secs(1), "{gaps:?}");
    assert!(simulation.seen.split_phases < simulation.seen.joined_phases / 20);
}

#[test]
fn three_columns_that_one_call_changes_are_split_together_and_it_is_never_stashed() {
    let three = [ADD, operate(2, Operation::Max), operate(3, Operation::OrderedPut)];
    let mut simulation = Simulation::new(&[Kind::new(1.0, 1, &three)]);
    let expected: Vec<Candidate> = [Operation::Add, Operation::Max, Operation::OrderedPut]
        .into_iter()
        .zip(1..)
        .map(|(operation, column)| candidate(1, column, operation))
        .collect();
    simulation.run_seconds(3);
    assert_eq!(simulation.split(), expected);
    assert_eq!(simulation.seen.changes.len(), 3);
    assert!(simulation.seen.changes.iter().all(|(when, _)| *when == simulation.seen.changes[0].0));
    assert_eq!(simulation.seen.stashed, 0);
    assert!(simulation.decision.may_skip_joined, "no call waits for a joined phase");
}

#[test]
fn an_even_mixture_of_two_operations_does_not_change_to_and_fro() {
    for of_add in [0.3, 0.45, 0.5, 0.55, 0.7] {
        let mut simulation =
            Simulation::new(&[Kind::new(of_add, 1, &[ADD]), Kind::new(1.0 - of_add, 1, &[MAX])]);
        simulation.run_seconds(5);
        let changes = simulation.seen.changes.len();
        assert!(changes <= 2, "{of_add} of Add: {changes} changes");
        assert_eq!(simulation.split().len(), 1);
    }
}

#[test]
fn contention_by_other_writes_is_no_reason_for_a_split_phase() {
    // Half of the calls that write the record also read it.
    let mut simulation = Simulation::new(&[Kind::new(0.2, 1, &[ADD]), Kind::new(0.8, 1, &[Access::Record])]);
    simulation.conflict_class = 0.5;
    simulation.run_seconds(3);
    assert_eq!(simulation.seen.split_phases, 0);
}

#[test]
fn an_engine_that_falls_idle_has_no_split_phases_any_more() {
    let mut simulation = hot(50.0);
    simulation.until_split(&[add_to(1)]);
    simulation.calls_per_second = 0.0;
    let before = simulation.seen.split_phases;
    simulation.run_seconds(2);
    assert!(simulation.split().is_empty());
    assert!(simulation.seen.split_phases - before <= 3);
    simulation.calls_per_second = 1e6;
    let (_, time) = simulation.until_split(&[add_to(1)]);
    assert!(time <= Duration::from_millis(500), "{time:?}");
}

#[test]
fn no_more_columns_are_split_than_there_is_room_for_and_those_that_are_stay() {
    let kinds: Vec<Kind> =
        (0..90).map(|number| Kind::new(0.011, number, &[ADD, operate(2, Operation::Add)])).collect();
    let mut simulation = Simulation::new(&kinds);
    (simulation.conflict_class, simulation.calls_per_second) = (20.0, 200_000.0);
    simulation.run_seconds(2);
    let split = simulation.split();
    assert!((48..=SPLIT_COLUMNS_MAX).contains(&split.len()), "{}", split.len());
    assert_eq!(simulation.seen.changes.len(), split.len());
    for pair in split.chunks(2) {
        assert_eq!(pair[0].record, pair[1].record, "both columns of a record or none");
    }
}

#[test]
fn labels_are_split_without_conflicts_and_whatever_is_stashed() {
    let mut simulation = hot(20.0);
    simulation.conflict_class = 0.0;
    simulation.kinds.push(Kind::new(0.7, 1, &[Access::Record]));
    simulation.classifier.set_labels(vec![add_to(1), candidate(1, 1, Operation::Max)]);
    simulation.run_seconds(2);
    assert_eq!(simulation.split(), [add_to(1)], "the first label of a column counts");
    assert!(simulation.seen.split_phases > 50);
    assert_eq!(simulation.seen.changes.len(), 1);
    assert_eq!(simulation.seen.changes[0].1, Change { candidate: add_to(1), reason: Reason::Labelled });

    simulation.classifier.set_labels(Vec::new());
    simulation.step();
    simulation.run_seconds(1);
    assert!(simulation.split().is_empty());
    assert_eq!(simulation.seen.changes[1].1.reason, Reason::LabelRemoved);
}

#[test]
fn labelled_columns_that_nobody_writes_are_tried_seldom_and_at_once_when_they_conflict() {
    let mut simulation = Simulation::new(&[Kind::new(0.5, COLD, &[Access::Record])]);
    simulation.classifier.set_labels(vec![add_to(1)]);
    simulation.run_seconds(4);
    let tries = simulation.seen.split_phases;
    assert!((5..=16).contains(&tries), "{tries} tries in 200 phases");
    assert_eq!(simulation.split(), [add_to(1)], "it stays a label");

    simulation.kinds = vec![Kind::new(0.5, 1, &[ADD])];
    simulation.run_seconds(2);
    assert!(simulation.seen.split_phases - tries > 80);

    simulation.calls_per_second = 0.0;
    simulation.run(Duration::from_millis(100));
    let idle = simulation.seen.split_phases;
    simulation.run_seconds(2);
    assert_eq!(simulation.seen.split_phases, idle, "there are no calls");
}

#[test]
fn a_label_takes_over_what_was_split_by_itself() {
    let mut simulation = hot(50.0);
    simulation.until_split(&[add_to(1)]);
    simulation.classifier.set_labels(vec![add_to(1), candidate(2, 1, Operation::Max)]);
    simulation.run_seconds(1);
    assert_eq!(simulation.split(), [add_to(1), candidate(2, 1, Operation::Max)]);
    assert_eq!(simulation.seen.changes.len(), 2);
    simulation.classifier.set_labels(vec![candidate(1, 1, Operation::Max)]);
    simulation.run_seconds(1);
    assert_eq!(simulation.split(), [candidate(1, 1, Operation::Max)], "the label decides on the operation");
}

#[test]
fn labels_go_before_what_was_found_contended() {
    let mut simulation = hot(50.0);
    simulation.until_split(&[add_to(1)]);
    let labels = (100..200).map(add_to).collect();
    simulation.classifier.set_labels(labels);
    simulation.step();
    let split = simulation.split();
    assert_eq!(split, (100..164).map(add_to).collect::<Vec<_>>());
    let no_room = Change { candidate: add_to(1), reason: Reason::NoRoom };
    assert!(simulation.seen.changes.iter().any(|(_, change)| *change == no_room));
    simulation.run_seconds(1);
    assert!(!simulation.split().contains(&add_to(1)));
}

#[test]
fn a_split_phase_ends_early_when_too_many_wait() {
    let ends = Classifier::should_end_split_early;
    assert!(!ends(0, 0, false) && !ends(0, 1_000, false) && !ends(0, 0, true), "nothing is stashed");
    assert!(!ends(63, 0, false), "the sample is too small");
    assert!(ends(64, 63, false) && !ends(64, 64, false));
    assert!(!ends(3, 50, false) && ends(3, 50, true) && ends(1, 0, true), "all active callers are stashed");

    let mut simulation = like(1.4, 50.0);
    simulation.in_flight = 100_000;
    simulation.run_seconds(2);
    assert_eq!(simulation.seen.ended_early, 0, "half of the calls write");
    simulation.kinds = vec![Kind::new(1.0, 0, &[Access::Record])];
    simulation.step();
    assert_eq!(simulation.seen.ended_early, 1);
}

#[test]
fn the_joined_phase_is_skipped_only_where_nobody_waits_for_it() {
    let mut classifier = Classifier::new();
    classifier.set_labels(vec![add_to(1)]);
    let mut report = SplitReport {
        length: Duration::from_millis(20),
        committed: 10_000,
        writes: vec![(add_to(1), 5_000)],
        ..SplitReport::default()
    };
    assert!(classifier.end_of_split(&report).may_skip_joined);
    report.stashed = 1;
    let decision = classifier.end_of_split(&report);
    assert!(decision.worth_splitting && !decision.may_skip_joined);
    report.stashed = 0;
    report.writes[0].1 = 0;
    let decision = classifier.end_of_split(&report);
    assert!(!decision.worth_splitting && !decision.may_skip_joined);
    let joined = JoinedReport { length: Duration::from_millis(20), committed: 10, ..JoinedReport::default() };
    assert!(!classifier.end_of_joined(&joined).may_skip_joined);
}

#[test]
fn a_record_whose_adds_find_no_room_is_not_kept_split() {
    let mut classifier = Classifier::new();
    let mut samples = Samples::default();
    samples.conflicts.add(record(1), ADD, 500);
    let joined = JoinedReport { length: Duration::from_millis(20), committed: 20_000, samples };
    classifier.end_of_joined(&joined);
    assert_eq!(classifier.end_of_joined(&joined).split, [add_to(1)]);
    let mut report = SplitReport {
        length: Duration::from_millis(20),
        committed: 10,
        stashed: 1_000,
        writes: vec![(add_to(1), 10)],
        ..SplitReport::default()
    };
    report.samples.stashes.add(record(1), ADD, 1_000);
    let decision = classifier.end_of_split(&report);
    assert!(decision.split.is_empty() && !decision.worth_splitting);
    assert_eq!(decision.changes, [Change { candidate: add_to(1), reason: Reason::Stashes }]);
}

#[test]
fn the_same_reports_lead_to_the_same_decisions() {
    let changes = || {
        let mut simulation = like(1.2, 60.0);
        simulation.stray = 0.01;
        simulation.run_seconds(2);
        simulation.seen.changes
    };
    let first = changes();
    assert!(!first.is_empty());
    assert_eq!(first, changes());
}
