//! Placing, and living forever.

use std::time::Duration;

use super::*;
use crate::schedule::StatePrune;
use crate::schedule::reference::{Attribute, Collector, Scalar, Term};

fn settings() -> PredictSettings {
    PredictSettings {
        policy: Policy::default(),
        history: Duration::from_secs(5),
        renew: Duration::from_secs(10),
        prune: StatePrune::Stable,
        memory_bytes: 1 << 20,
    }
}

/// A call's references: a warehouse, and an item.
fn call(warehouse: i64, item: i64) -> References {
    let mut references = References::default();
    let policy = Policy::default();
    let mut collector = Collector::new(policy.form(), &mut references);
    for (name, value) in [("warehouse", warehouse), ("item", item)] {
        collector.condition(Attribute::named(&[name]), Term::Equal(Scalar::of_int(value)));
        collector.end_conjunction();
    }
    references
}

/// A schedule and a clock: each call is aborted once if the queue is not the one that its warehouse is mostly in.
struct World {
    predict: Predict,
    queues: usize,
    now: Observation,
    /// For each warehouse, the calls in each queue.
    placed: Vec<Vec<u64>>,
    next: u64,
}

impl World {
    fn new(settings: PredictSettings, queues: usize, warehouses: usize) -> World {
        World {
            predict: Predict::new(settings, queues),
            queues,
            now: Observation::default(),
            placed: vec![vec![0; queues]; warehouses],
            next: 0,
        }
    }

    /// One call; whether it was placed at random.
    fn one(&mut self, warehouse: usize) -> bool {
        self.next += 1;
        let references = call(warehouse as i64, (self.next.wrapping_mul(0x9E37_79B9) >> 7) as i64 % 5_000);
        let placement = self.predict.place(&references);
        let most = (0..self.queues).max_by_key(|queue| self.placed[warehouse][*queue]).unwrap();
        let aborts = u32::from(placement.queue != most);
        self.placed[warehouse][placement.queue] += 1;
        self.now.committed += 1;
        self.now.aborted += u64::from(aborts);
        if placement.noted {
            self.predict.ended(&references, aborts);
        }
        placement.noted
    }

    /// Ten calls of each warehouse in each tenth of a second. Gives how many calls were placed at random.
    fn seconds(&mut self, seconds: u64) -> u64 {
        let mut noted = 0;
        for _ in 0..10 * seconds {
            for number in 0..10 * self.placed.len() {
                noted += u64::from(self.one(number % self.placed.len()));
            }
            self.now.at += Duration::from_millis(100);
            self.predict.maintain(self.now);
        }
        noted
    }

    /// Forgets what was placed where; the schedule does not.
    fn begin_counting(&mut self) {
        self.placed.iter_mut().for_each(|queues| queues.fill(0));
    }

    /// For each warehouse, its main queue, and the share of its calls there.
    fn homes(&self) -> Vec<(usize, f64)> {
        let home = |queues: &Vec<u64>| {
            let (queue, most) = queues.iter().enumerate().max_by_key(|(_, calls)| **calls).unwrap();
            (queue, *most as f64 / queues.iter().sum::<u64>().max(1) as f64)
        };
        self.placed.iter().map(home).collect()
    }
}

#[test]
fn at_first_everything_is_random_and_noted_and_then_the_policy_decides() {
    let mut world = World::new(settings(), 4, 4);
    assert_eq!(world.seconds(5), 2_000);
    assert!(world.predict.report().is_filling && world.predict.report().history_references > 4);
    assert_eq!(world.predict.state.references(), 0, "the State is not filled at random");
    world.seconds(1);
    assert!(!world.predict.report().is_filling);
    world.begin_counting();
    let noted = world.seconds(5);
    assert!((1..200).contains(&noted), "a share of 2,000 still is: {noted}");
    let mut homes: Vec<usize> = world.homes().into_iter().map(|(queue, _)| queue).collect();
    homes.sort_unstable();
    assert_eq!(homes, [0, 1, 2, 3], "four warehouses have four queues");
    assert!(world.homes().iter().all(|(_, share)| *share > 0.85), "{:?}", world.homes());
}

#[test]
fn the_leaders_say_what_looking_at_everything_would_say() {
    let number = || random::below(3_000);
    let predict = Predict::new(PredictSettings { memory_bytes: 8 << 20, ..settings() }, 4);
    let some = |references: &mut References| {
        let mut collector = Collector::new(Policy::default().form(), references);
        (0..1 + random::below(8)).for_each(|_| {
            // Squared, so that few are named often, and many seldom.
            let value = i64::from(number()) * i64::from(number()) / 3_000;
            collector.condition(Attribute::named(&["item"]), Term::Equal(Scalar::of_int(value)));
        });
    };
    let calls = |calls: usize| {
        (0..calls).map(|_| {
            let mut references = References::default();
            some(&mut references);
            references
        })
    };
    calls(20_000).for_each(|call| predict.ended(&call, random::below(2)));
    let all: Vec<References> = calls(2_000).collect();
    let strongest = |call: &References, others| {
        let found = predict.find(call, others);
        predict.strongest(call, &found).map(|number| (number, found[number].outcomes))
    };
    let before: Vec<_> = all.iter().map(|call| strongest(call, 1)).collect();
    predict.hot_key_cache.learn(&predict.history);
    let said = all.iter().filter(|call| predict.hot_key_cache.look(call.as_slice()).is_some()).count();
    assert!((200..1_900).contains(&said), "they can say it of some, and not of all: {said}");
    for others in [0, 1] {
        assert!(all.iter().zip(&before).all(|(call, before)| strongest(call, others) == *before));
    }
}

#[test]
fn queues_that_the_first_calls_have_filled_unevenly_are_balanced() {
    let mut world = World::new(settings(), 8, 8);
    world.seconds(6);
    // As if the first calls had brought all warehouses into one queue.
    for warehouse in 0..8 {
        let reference = call(warehouse, 0).as_slice()[0];
        world.predict.state.put(reference, &[100, 0, 0, 0, 0, 0, 0, 0], &world.predict.history);
    }
    world.seconds(3);
    world.begin_counting();
    world.seconds(2);
    let mut homes: Vec<usize> = world.homes().into_iter().map(|(queue, _)| queue).collect();
    homes.sort_unstable();
    assert_eq!(homes, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn what_waited_when_the_policy_began_is_dealt_out_evenly_whatever_came_first() {
    let mut world = World::new(settings(), 8, 8);
    world.seconds(5);
    assert!(!world.predict.maintain(world.now), "it is not yet time");
    world.now.at += Duration::from_millis(100);
    assert!(world.predict.maintain(world.now), "now the policy decides");
    world.now.at += Duration::from_millis(100);
    assert!(!world.predict.maintain(world.now));
    // The first call names all warehouses, and so brings them into one queue.
    let mut waiting = References::default();
    let mut collector = Collector::new(Policy::default().form(), &mut waiting);
    (0..8).for_each(|warehouse| {
        collector.condition(Attribute::named(&["warehouse"]), Term::Equal(Scalar::of_int(warehouse)));
    });
    world.predict.decide(&waiting);
    let warehouses = || (0..8).map(|warehouse| call(warehouse, 1_000_000));
    let queues = |predict: &Predict| {
        let mut queues: Vec<usize> = warehouses().map(|call| predict.decide(&call).queue).collect();
        queues.sort_unstable();
        queues.dedup();
        queues.len()
    };
    (0..10).for_each(|_| assert_eq!(queues(&world.predict), 1));
    world.predict.distribute();
    assert_eq!(queues(&world.predict), 8);
}

#[test]
fn the_history_is_renewed_from_the_sample() {
    let mut world = World::new(settings(), 4, 4);
    world.seconds(6);
    let old = call(1_000_000, 1).as_slice()[0];
    let (read, filled) = (world.predict.history.get(old), world.predict.history.noted().0);
    assert_eq!(read, None);
    assert!(filled < 100, "the second History begins empty: {filled}");
    let first = world.predict.history.references();
    world.seconds(1_000);
    assert!(world.predict.history.noted().0 < 10_000, "it was renewed meanwhile");
    assert!(world.predict.history.references() > 0 && first > 0);
    let warehouse = call(1, 0).as_slice()[0];
    assert!(world.predict.history.get(warehouse).is_some_and(|known| known.aborts > 0));
    world.begin_counting();
    world.seconds(5);
    assert!(world.homes().iter().all(|(_, share)| *share > 0.85), "it still knows: {:?}", world.homes());
}

#[test]
fn a_history_of_too_little_is_not_taken_for_a_better_one() {
    let mut world = World::new(settings(), 4, 4);
    world.seconds(6);
    let known = world.predict.history.get(call(1, 0).as_slice()[0]);
    // Time goes by, but hardly a call comes.
    for _ in 0..1_000 {
        world.one(1);
        world.now.at += Duration::from_secs(1);
        world.predict.maintain(world.now);
    }
    assert_eq!(world.predict.history.get(call(1, 0).as_slice()[0]), known);
}

#[test]
fn the_state_stays_small_unless_pruning_is_off() {
    let size = |prune| {
        let mut world = World::new(PredictSettings { prune, memory_bytes: 4 << 20, ..settings() }, 4, 4);
        world.seconds(60);
        let bytes = world.predict.report().bytes;
        world.seconds(60);
        assert_eq!(world.predict.report().bytes, bytes);
        world.predict.state.references()
    };
    let (off, stable, direct) = (size(StatePrune::Off), size(StatePrune::Stable), size(StatePrune::Direct));
    assert!(off > 4_500, "nearly all items and warehouses, some of which no counted call has named: {off}");
    assert!(stable < off && direct < off, "{off} {stable} {direct}");
}

#[test]
fn a_shift_and_the_return_from_it_keep_each_warehouse_in_one_queue() {
    let mut world = World::new(settings(), 4, 8);
    world.seconds(20);
    // One warehouse gets nearly everything for a while.
    for _ in 0..200 {
        (0..60).for_each(|number| {
            world.one(if number % 10 == 0 { number % 8 } else { 3 });
        });
        world.now.at += Duration::from_millis(100);
        world.predict.maintain(world.now);
    }
    world.seconds(8);
    world.begin_counting();
    world.seconds(2);
    assert!(world.homes().iter().all(|(_, share)| *share > 0.8), "{:?}", world.homes());
    let mut calls = [0; 4];
    world.placed.iter().for_each(|queues| (0..4).for_each(|queue| calls[queue] += queues[queue]));
    assert!(calls.iter().all(|calls| (250..650).contains(calls)), "about 400 each: {calls:?}");
}

#[test]
fn without_conflicts_calls_are_spread_evenly() {
    let predict = Predict::new(PredictSettings { history: Duration::ZERO, ..settings() }, 5);
    let mut queues = [0_u32; 5];
    for number in 0..10_000 {
        queues[predict.place(&call(number % 3, number)).queue] += 1;
    }
    assert!(queues.iter().all(|calls| (1_800..2_200).contains(calls)), "{queues:?}");
    assert!(!predict.report().is_filling);
}

#[test]
fn a_call_without_references_goes_to_the_emptiest_queue() {
    let predict = Predict::new(PredictSettings { history: Duration::ZERO, ..settings() }, 2);
    predict.state.put(7, &[5, 1], &predict.history);
    let placement = predict.decide(&References::default());
    assert_eq!((placement.queue, placement.conflict_class, placement.apart), (1, 0, false));
}

#[test]
fn concurrent_placing_reporting_and_upkeep_disturb_nobody() {
    let predict = Predict::new(PredictSettings { history: Duration::from_millis(300), ..settings() }, 4);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let predict = &predict;
            scope.spawn(move || {
                for number in 0..20_000 {
                    let references = call((number + thread) % 8, number);
                    let placement = predict.place(&references);
                    assert!(placement.queue < 4);
                    if placement.noted {
                        predict.ended(&references, u32::from(number % 3 == 0));
                    }
                }
            });
        }
        scope.spawn(|| {
            for tick in 0..200 {
                let at = Duration::from_millis(100 * tick);
                predict.maintain(Observation { at, committed: 1_000 * tick, aborted: 100 * tick });
            }
        });
    });
    assert!(predict.report().history_references > 0);
}
