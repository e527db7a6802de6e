//! Samplers: what they count, forget and estimate.

use super::*;

const TABLE: TableId = 7;
const ADD: Access = Access::Operation { column: 1, operation: Operation::Add };
const MAX: Access = Access::Operation { column: 1, operation: Operation::Max };

fn record(number: u64) -> RecordKey {
    RecordKey { table: TABLE, key: EncodedKey::from(number.to_be_bytes().as_slice()) }
}

fn conflict(sampler: &Sampler, number: u64, accesses: &[Access]) {
    sampler.report_conflict(TABLE, &number.to_be_bytes(), accesses);
}

fn drained(sampler: &Sampler) -> Samples {
    let mut samples = Samples::default();
    sampler.drain_into(&mut samples);
    samples
}

fn count(counts: &Counts, number: u64, access: Access) -> u64 {
    counts.get(&record(number)).and_then(|accesses| accesses.get(&access)).copied().unwrap_or(0)
}

#[test]
fn a_few_reports_are_counted_exactly_and_each_thing_for_itself() {
    let sampler = Sampler::new();
    for _ in 0..5 {
        conflict(&sampler, 1, &[ADD]);
    }
    conflict(&sampler, 1, &[MAX]);
    conflict(&sampler, 1, &[Access::Column(1)]);
    conflict(&sampler, 1, &[Access::Record]);
    conflict(&sampler, 2, &[ADD, Access::Operation { column: 2, operation: Operation::Max }]);
    sampler.report_conflict(TABLE + 1, &1_u64.to_be_bytes(), &[ADD]);
    sampler.report_stash(TABLE, &1_u64.to_be_bytes(), &[Access::Record]);

    let samples = drained(&sampler);
    let conflicts = &samples.conflicts;
    assert_eq!(count(conflicts, 1, ADD), 5);
    assert_eq!(count(conflicts, 1, MAX), 1);
    assert_eq!(count(conflicts, 1, Access::Column(1)), 1);
    assert_eq!(count(conflicts, 1, Access::Record), 1);
    assert_eq!(count(conflicts, 2, ADD), 1);
    assert_eq!(count(conflicts, 2, Access::Operation { column: 2, operation: Operation::Max }), 1);
    assert_eq!(conflicts.iter().count(), 3, "the same key of another table is another record");
    assert_eq!(samples.stashes.iter().count(), 1);
    assert_eq!(count(&samples.stashes, 1, Access::Record), 1);
}

#[test]
fn what_was_drained_is_gone_and_worker_contexts_add_up() {
    let samplers = [Sampler::new(), Sampler::new(), Sampler::new()];
    for sampler in &samplers {
        conflict(sampler, 1, &[ADD]);
        conflict(sampler, 1, &[ADD]);
    }
    let mut samples = Samples::default();
    samplers.iter().for_each(|sampler| sampler.drain_into(&mut samples));
    assert_eq!(count(&samples.conflicts, 1, ADD), 6);
    assert_eq!(drained(&samplers[0]).conflicts.iter().count(), 0);
    conflict(&samplers[0], 1, &[ADD]);
    assert_eq!(count(&drained(&samplers[0]).conflicts, 1, ADD), 1, "it is used again after a drain");
}

#[test]
fn many_reports_are_estimated_within_a_few_per_cent() {
    let sampler = Sampler::new();
    for round in 0..100_000_u64 {
        // A regular sequence, whose length divides the mean gap: record 1 twice as often as 2, 3 and 4 seldom.
        match round % 8 {
            0 | 2 | 4 | 6 => conflict(&sampler, 1, &[ADD]),
            1 | 5 => conflict(&sampler, 2, &[ADD]),
            3 => conflict(&sampler, 3, &[MAX]),
            _ => conflict(&sampler, 4, &[Access::Record]),
        }
    }
    let conflicts = drained(&sampler).conflicts;
    for (number, access, true_count) in
        [(1, ADD, 50_000), (2, ADD, 25_000), (3, MAX, 12_500), (4, Access::Record, 12_500)]
    {
        let estimate = count(&conflicts, number, access);
        let error = estimate.abs_diff(true_count) as f64 / true_count as f64;
        assert!(error < 0.08, "record {number}: {estimate} for {true_count}");
    }
}

#[test]
fn accesses_of_one_report_are_counted_or_skipped_together() {
    let accesses = [
        ADD,
        Access::Operation { column: 2, operation: Operation::Max },
        Access::Operation { column: 3, operation: Operation::OrderedPut },
    ];
    let sampler = Sampler::new();
    for _ in 0..20_000 {
        conflict(&sampler, 1, &accesses);
    }
    let conflicts = drained(&sampler).conflicts;
    let first = count(&conflicts, 1, accesses[0]);
    assert!(first > 15_000);
    assert!(accesses.iter().all(|&access| count(&conflicts, 1, access) == first));
}

#[test]
fn a_hot_record_is_found_among_very_many_others_and_none_of_those_looks_hot() {
    let sampler = Sampler::new();
    for round in 0..40_000_u64 {
        if round % 10 == 0 {
            conflict(&sampler, 0, &[ADD]);
        } else {
            conflict(&sampler, round, &[ADD]);
        }
    }
    let conflicts = drained(&sampler).conflicts;
    let hot = count(&conflicts, 0, ADD);
    assert!((3_000..=5_000).contains(&hot), "{hot}");
    for (other, accesses) in conflicts.iter().filter(|(other, _)| **other != record(0)) {
        let counted = accesses.values().sum::<u64>();
        assert!(counted <= SAMPLED_ONE_IN, "{other:?} was reported once, and has {counted}");
    }
    assert!(conflicts.iter().count() <= ENTRIES);
}

#[test]
fn no_more_than_what_was_reported_is_handed_over() {
    let sampler = Sampler::new();
    // Fewer reports than are counted exactly, of more things than there are entries.
    for round in 0..EXACT_REPORTS - 1 {
        conflict(&sampler, round % 80, &[ADD]);
    }
    let conflicts = drained(&sampler).conflicts;
    for (known, accesses) in conflicts.iter() {
        assert!(accesses[&ADD] <= 4, "{known:?}: {}", accesses[&ADD]);
    }
}

#[test]
fn accesses_have_different_codes_and_fingerprints() {
    let mut accesses = vec![Access::Record];
    for column in [0, 1, 255, 256, u16::MAX] {
        accesses.push(Access::Column(column));
        accesses.extend(Operation::ALL.iter().map(|&operation| Access::Operation { column, operation }));
    }
    let codes: std::collections::BTreeSet<_> = accesses.iter().map(|access| access.code()).collect();
    assert_eq!(codes.len(), accesses.len());
    let fingerprints: std::collections::BTreeSet<_> = accesses
        .iter()
        .flat_map(|&access| (0..100).map(move |table| fingerprint(42, table, access)))
        .collect();
    assert_eq!(fingerprints.len(), accesses.len() * 100);
}

#[test]
fn the_coordinator_drains_while_the_worker_reports() {
    let sampler = Sampler::new();
    let mut total = 0;
    std::thread::scope(|scope| {
        let reporter = scope.spawn(|| (0..200).for_each(|_| conflict(&sampler, 1, &[ADD])));
        while !reporter.is_finished() {
            total += count(&drained(&sampler).conflicts, 1, ADD);
        }
    });
    total += count(&drained(&sampler).conflicts, 1, ADD);
    assert_eq!(total, 200, "each report is drained once");
}
