//! The decisions of the resource manager: by requests, by busy time, by rows; and the number of executors.

use super::*;

const INTERVAL: Duration = Duration::from_millis(100);

/// A manager that has observed these numbers of requests for these hashes.
fn seen_by(executors: usize, requests: impl IntoIterator<Item = (u64, u32)>) -> ResourceManager {
    let (counts, mut manager) = (RequestCounts::default(), ResourceManager::new(executors, false));
    for (hash, times) in requests {
        (0..times).for_each(|_| counts.count(hash));
    }
    manager.collect(INTERVAL, [(&counts, Duration::ZERO)]);
    manager
}

/// The same for four executors.
fn seen(requests: impl IntoIterator<Item = (u64, u32)>) -> ResourceManager {
    seen_by(4, requests)
}

/// A manager that decides how many of four executors have a range; two were busy for these parts of a second.
fn busy(parts: [f64; 2], each: u32) -> ResourceManager {
    let (counts_of, mut manager) =
        ([RequestCounts::default(), RequestCounts::default()], ResourceManager::new(4, true));
    for observation in 1..=10_u32 {
        for (counts, start) in counts_of.iter().zip([0, 1 << 63]) {
            (0..each).for_each(|number| counts.count(start + (u64::from(number) << 52)));
        }
        let spent = parts.map(|part| (INTERVAL * observation).mul_f64(part));
        manager.collect(INTERVAL, counts_of.iter().zip(spent));
    }
    manager
}

fn bucket(number: u64) -> u64 {
    number << SHIFT
}

fn quarters() -> Vec<u64> {
    vec![1 << 62, 1 << 63, 3 << 62]
}

/// Equal ranges of this many executors; the others of four have none.
fn first(executors: u64) -> Vec<u64> {
    let start = |number: u64| if number < executors { u64::MAX / executors * number } else { u64::MAX };
    (1..4).map(start).collect()
}

/// Rows in these buckets.
fn rows(all: impl IntoIterator<Item = (usize, u32)>) -> Vec<u32> {
    let mut rows = vec![0; BUCKETS];
    all.into_iter().for_each(|(bucket, count)| rows[bucket] = count);
    rows
}

#[test]
fn an_even_load_moves_nothing() {
    let manager = seen((0..BUCKETS as u64).map(|number| (bucket(number), 2)));
    assert_eq!(manager.plan(&quarters()), None);
    assert_eq!(manager.even(&manager.weights, 4), quarters());
    let alone = seen_by(1, [(0, 1_000)]);
    assert_eq!(alone.plan(&[]), None, "one executor has no boundaries");
}

#[test]
fn all_load_in_one_range_is_divided_among_all() {
    let manager = seen((0..BUCKETS as u64 / 4).map(|number| (bucket(number) + 99, 4)));
    let starts = manager.plan(&quarters()).expect("it is uneven");
    assert_eq!(starts, vec![1 << 60, 2 << 60, 3 << 60]);
    assert_eq!(manager.shares(&starts), vec![1024.0; 4]);
    assert_eq!(manager.plan(&starts), None, "it is even now");
}

#[test]
fn a_single_hot_hash_is_not_divided_and_the_rest_goes_to_other_executors() {
    let warm = (0..1_000).map(|number| (bucket(number), 1));
    let manager = seen(warm.chain([(bucket(500) + 7, 3_000)]));
    let starts = manager.plan(&quarters()).expect("the first has all");
    let shares = manager.shares(&starts);
    let hot = shares.iter().copied().fold(0.0, f64::max);
    assert!((3_000.0..3_600.0).contains(&hot), "{shares:?}");
    assert!(shares.iter().filter(|share| **share > 100.0).count() >= 3, "{shares:?}");
    assert_eq!(manager.plan(&starts), None, "what is left cannot be helped");
    // Nothing but the hot hash: a repartitioning gains nothing.
    assert_eq!(seen([(bucket(500), 3_000)]).plan(&quarters()), None);
}

#[test]
fn requests_in_turn_are_sampled_evenly() {
    let (mut sampler, counts, mut counted) = (RequestSampler::default(), RequestCounts::default(), [0; 8]);
    for request in 0..80_000 {
        counted[request % 8] += u32::from(sampler.takes_next(&counts));
    }
    // About 1,250 each: chance never makes it half or double of that.
    assert!(counted.iter().all(|times| (625..2_500).contains(times)), "{counted:?}");
    assert!((8_000..12_000).contains(&counted.iter().sum::<u32>()), "{counted:?}");
}

#[test]
fn few_requests_are_all_counted() {
    let (mut sampler, counts, mut manager) =
        (RequestSampler::default(), RequestCounts::default(), ResourceManager::new(1, false));
    let mut ask = |times: usize| (0..times).filter(|_| sampler.takes_next(&counts)).count();
    ask(40);
    manager.collect(INTERVAL, [(&counts, Duration::ZERO)]);
    // The sampler may still skip some.
    ask(2 * SAMPLING_INTERVAL as usize);
    assert_eq!(ask(100), 100);
    (0..2_000).for_each(|_| counts.count(0));
    manager.collect(INTERVAL, [(&counts, Duration::ZERO)]);
    assert!(ask(8_000) < 2_000, "there are many now");
}

/// Twenty requests a second, all in one range: one alone is no reason for a repartitioning, all of them are.
#[test]
fn slow_requests_are_balanced_in_the_end() {
    let (counts, mut manager) = (RequestCounts::default(), ResourceManager::new(4, false));
    let mut observations = 0;
    while manager.plan(&quarters()).is_none() {
        observations += 1;
        (0..2).for_each(|number| counts.count(bucket((observations * 2 + number) % 1_024)));
        manager.collect(INTERVAL, [(&counts, Duration::ZERO)]);
        assert!(observations < 100, "they have gathered for ten seconds");
    }
    assert!(observations > 10, "a few say nothing");
}

#[test]
fn an_executor_before_a_hot_hash_is_not_empty() {
    for hot in [0, 500, 999] {
        for executors in [2, 4, 8] {
            let requests = (0..1_000).map(|number| (bucket(number), if number == hot { 9_000 } else { 1 }));
            let manager = seen_by(executors, requests);
            let shares = manager.shares(&manager.even(&manager.weights, executors));
            // The executors behind the last hash have nothing, if it is the hot one.
            let with_some = shares.iter().filter(|share| **share > 0.0).count();
            assert!(with_some == executors || hot == 999, "{hot} {shares:?}");
        }
    }
}

#[test]
fn few_requests_and_chance_move_nothing() {
    assert_eq!(seen([(0, 30), (bucket(1), 30)]).plan(&quarters()), None);
    let by_chance = [(0, 78), (1 << 62, 64), (1 << 63, 60), (3 << 62, 60)];
    assert_eq!(seen(by_chance).plan(&quarters()), None);
}

#[test]
fn older_counts_are_forgotten_as_newer_ones_come() {
    let (counts, mut manager) = (RequestCounts::default(), ResourceManager::new(2, false));
    let mut observe = |hash, times| {
        (0..times).for_each(|_| counts.count(hash));
        manager.collect(INTERVAL, [(&counts, Duration::ZERO)]);
        manager.shares(&[1 << 63])
    };
    observe(0, 10_000);
    let shares = (0..6).map(|_| observe(u64::MAX, 10_000)).last().expect("there is one");
    assert!(shares[0] < 200.0 && shares[0] > 0.0 && shares[1] > 15_000.0, "{shares:?}");
    // Without new requests the old ones count for a while.
    let shares = (0..20).map(|_| observe(0, 0)).last().expect("there is one");
    assert!(shares[1] > 500.0, "{shares:?}");
}

#[test]
fn the_counts_of_all_executors_are_added() {
    let (one, other) = (RequestCounts::default(), RequestCounts::default());
    (0..300).for_each(|_| one.count(7));
    (0..200).for_each(|_| other.count(7));
    let mut manager = ResourceManager::new(2, false);
    manager.collect(INTERVAL, [(&one, Duration::ZERO), (&other, Duration::ZERO)]);
    assert_eq!(manager.shares(&[1 << 63]), vec![500.0, 0.0]);
}

/// Two executors with equally many requests, of which one takes six times as long.
#[test]
fn long_requests_weigh_more_than_short_ones() {
    let collect = |busy: [u64; 2]| {
        let (counts_of, mut manager) =
            ([RequestCounts::default(), RequestCounts::default()], ResourceManager::new(2, false));
        for (counts, start) in counts_of.iter().zip([0, 1 << 63]) {
            (0..500).for_each(|number| counts.count(start + (number << 50)));
        }
        manager.collect(INTERVAL, counts_of.iter().zip(busy.map(Duration::from_millis)));
        manager
    };
    let manager = collect([90, 15]);
    let starts = manager.plan(&[1 << 63]).expect("it is uneven");
    assert!(starts[0] < 1 << 63, "the slow one gives some away: {starts:?}");
    let shares = manager.shares(&starts);
    assert!(shares[0] / shares[1] < 1.2 && shares[1] / shares[0] < 1.2, "{shares:?}");
    // A thread was preempted for a moment.
    assert_eq!(collect([60, 35]).plan(&[1 << 63]), None);
    // Busy time without requests says nothing.
    assert_eq!(collect([0, 0]).plan(&[1 << 63]), None);
}

#[test]
fn a_boundary_within_a_bucket_divides_its_weight_by_length() {
    let manager = seen([(bucket(3) + 5, 100)]);
    let middle = bucket(3) + (1 << (SHIFT - 1));
    assert_eq!(manager.shares(&[middle]), vec![50.0, 50.0]);
    assert_eq!(manager.shares(&[bucket(3), bucket(3), u64::MAX]), vec![0.0, 0.0, 100.0, 0.0]);
    assert_eq!(manager.shares(&[0]), vec![0.0, 100.0]);
}

#[test]
fn boundaries_ascend_whatever_the_load_is() {
    for seed in 1..200_u64 {
        let random = |number: u64| (number + 1).wrapping_mul(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let few = 1 + seed % 7;
        for executors in [2, 3, 8, 64] {
            let requests = (0..few).map(|number| (random(number), 1 + (random(number) >> 56) as u32));
            let manager = seen_by(executors, requests);
            for wanted in 1..=executors {
                let starts = manager.even(&manager.weights, wanted);
                assert!(starts.is_sorted() && starts.len() == executors - 1, "{starts:?}");
                assert!(in_use(&starts) <= wanted, "{starts:?}");
                let all: f64 = manager.shares(&starts).iter().sum();
                let total: f64 = manager.weights.iter().sum();
                assert!((all - total).abs() < 1e-6, "{all} {total}");
            }
        }
    }
}

#[test]
fn rows_decide_without_requests() {
    let mut manager = ResourceManager::new(4, false);
    assert_eq!(manager.plan(&quarters()), None, "nothing is known");
    manager.set_rows(&rows((0..1_024).map(|number| (number, 10))));
    let starts = manager.plan(&quarters()).expect("all rows are the first one's");
    assert_eq!(starts, vec![1 << 60, 2 << 60, 3 << 60]);
    assert_eq!(manager.plan(&starts), None);
    // A few rows are where chance has put them.
    manager.set_rows(&rows([(0, 20), (1_500, 10), (3_000, 10)]));
    assert_eq!(manager.plan(&quarters()), None);
}

#[test]
fn requests_outweigh_rows_which_break_ties() {
    let mut manager = seen((0..BUCKETS as u64).map(|number| (bucket(number), 2)));
    manager.set_rows(&rows((0..100).map(|number| (number, 1_000_000))));
    assert_eq!(manager.plan(&quarters()), None, "requests are even");
    // There are no requests for the second half: its rows divide it, and the requested half is not affected.
    let mut manager = seen((0..2).map(|number| (bucket(number * 1_024), 1_000)));
    manager.set_rows(&rows((2_048..4_096).map(|number| (number, 1))));
    let (weights, _) = manager.conflict_counts();
    let starts = manager.even(&weights, 4);
    assert_eq!(starts[..2], [bucket(1), bucket(1_025)], "requests come first");
    assert!((5 << 61..7 << 61).contains(&starts[2]), "{starts:?}");
}

#[test]
fn a_few_rows_have_one_executor_until_that_one_is_busy() {
    let idle = |count| {
        let mut manager = ResourceManager::new(4, true);
        manager.set_rows(&rows((0..64).map(|number| (number * 64, count))));
        manager
    };
    assert_eq!(idle(1).plan(&quarters()).map(|starts| in_use(&starts)), Some(1));
    assert_eq!(idle(1).plan(&first(1)), None);
    assert_eq!(idle(2 * ROWS_EACH as u32 / 64).plan(&first(1)).map(|starts| in_use(&starts)), Some(2));
    assert_eq!(idle(1_000).plan(&quarters()), None, "there are enough for all");
    let grown = |parts| {
        let mut manager = busy(parts, 500);
        manager.set_rows(&rows((0..64).map(|number| (number * 64, 1))));
        manager.plan(&first(1)).map(|starts| in_use(&starts))
    };
    assert_eq!(grown([0.3, 0.0]), None);
    assert_eq!(grown([0.9, 0.0]), Some(2));
    assert_eq!(grown([0.9, 0.9]), Some(4));
}

#[test]
fn idle_executors_become_fewer_and_come_back() {
    let in_use_after = |parts, present: Vec<u64>| {
        let mut manager = busy(parts, 500);
        manager.set_rows(&rows([(7, 10)]));
        manager.plan(&present).map_or(0, |starts| in_use(&starts))
    };
    assert_eq!(in_use_after([0.2, 0.1], first(3)), 2);
    assert_eq!(in_use_after([0.1, 0.1], first(2)), 1);
    // Between the two limits the number stays as it is.
    assert_eq!(in_use_after([0.3, 0.3], first(2)), 0);
    assert_eq!(in_use_after([0.3, 0.3], first(3)), 3, "there are only two hashes");
    // The number of rows is unknown: no executor is retired.
    assert_eq!(busy([0.1, 0.1], 500).number(4), 4);
}

#[test]
fn a_fixed_number_of_executors_is_kept() {
    let mut manager = ResourceManager::new(4, false);
    manager.set_rows(&rows((0..64).map(|number| (number * 64, 1))));
    assert_eq!(manager.plan(&quarters()), None);
    manager.set_rows_at_least(1 << 40);
    assert_eq!((manager.number(4), manager.number(1)), (4, 4));
}

#[test]
fn a_lower_bound_of_the_rows_counts_before_all_are_counted() {
    let mut manager = ResourceManager::new(4, true);
    manager.set_rows_at_least(ROWS_EACH);
    assert_eq!(manager.number(3), 3, "there may be more");
    manager.set_rows_at_least(4 * ROWS_EACH);
    assert_eq!(manager.number(1), 4);
    manager.set_rows(&rows([(0, 5)]));
    assert_eq!(manager.number(3), 1, "most have gone");
}
