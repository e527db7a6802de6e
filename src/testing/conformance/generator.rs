//! Random scripts, determined by a seed: the same seed and shape always make the same script, so that a failure is
//! reproduced by its number.

use heddledb::PrimaryIndex;

use super::model::{Model, Row};
use super::script::{Move, Script};
use super::step::{Column, Operation, Span, Step};

/// The shape of a random script.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub transactions: usize,
    /// The most steps of a transaction, besides its end.
    pub steps: usize,
    /// The number of keys: few, where transactions should meet.
    pub keys: i64,
    /// True if transactions overlap; else each ends before the next begins.
    pub overlapping: bool,
}

/// The script of this seed.
pub fn script(seed: u64, shape: Shape) -> Script {
    let mut random = fastrand::Rng::with_seed(seed);
    let index = [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both][random.usize(0..3)];
    let mut start = Model { indexed: random.bool(), ..Model::default() };
    for key in 1..=shape.keys {
        if random.bool() {
            continue;
        }
        let tag = random.bool().then(|| random.i64(0..4));
        start.rows.insert(key, Row { n: random.i64(0..10), tag, code: Some(key), ..Row::default() });
    }
    let ordered = index != PrimaryIndex::Hash;
    let mut left: Vec<Vec<Step>> = (0..shape.transactions)
        .map(|_| {
            let mut steps = transaction(&mut random, shape, start.indexed, ordered);
            steps.reverse();
            steps
        })
        .collect();
    let mut schedule = Vec::new();
    while let Some(first) = left.iter().position(|steps| !steps.is_empty()) {
        let mut transaction = first;
        if shape.overlapping {
            let open: Vec<_> = (0..left.len()).filter(|&number| !left[number].is_empty()).collect();
            transaction = open[random.usize(0..open.len())];
        }
        let Some(step) = left[transaction].pop() else { unreachable!("it is open") };
        schedule.push(Move { transaction, step, expected: None });
    }
    let title = format!("random script {seed}");
    Script { title, canary: None, index, start, schedule, transactions: shape.transactions }
}

fn transaction(random: &mut fastrand::Rng, shape: Shape, indexed: bool, ordered: bool) -> Vec<Step> {
    let mut saved = Vec::new();
    let mut steps = Vec::new();
    for _ in 0..random.usize(1..=shape.steps) {
        steps.push(match random.u32(0..40) {
            0 => {
                let name = ['p', 'q', 'r'][random.usize(0..3)];
                saved.retain(|other| *other != name);
                saved.push(name);
                Step::Save(name)
            }
            1 if !saved.is_empty() => {
                // Later savepoints are void once it has gone back to an earlier one.
                let back_to = random.usize(0..saved.len());
                saved.truncate(back_to + 1);
                Step::Back(saved[back_to])
            }
            2 => Step::Nested,
            3..=6 => Step::Scan(span(random, shape.keys + 1, ordered)),
            7 | 8 if indexed => {
                let column = if random.bool() { Column::Tag } else { Column::Code };
                Step::Index(column, span(random, 5, true))
            }
            _ => access(random, shape.keys),
        });
    }
    steps.push(match random.u32(0..12) {
        0 => Step::Fail,
        1 => Step::Panic,
        _ => Step::Commit,
    });
    steps
}

fn access(random: &mut fastrand::Rng, keys: i64) -> Step {
    let key = random.i64(1..=keys);
    let value = random.i64(-3..10);
    let number = [Column::N, Column::N, Column::Tag, Column::Code][random.usize(0..4)];
    let any = [Column::N, Column::N, Column::Tag, Column::Code, Column::Best, Column::Top];
    match random.u32(0..32) {
        0..8 => Step::Get(key, any[random.usize(0..any.len())]),
        8 | 9 => Step::Exists(key),
        10..14 => {
            let (tag, code) = (random.bool().then(|| random.i64(0..4)), random.bool().then_some(value));
            Step::Insert { key, n: value, tag, code }
        }
        14..18 => {
            let null = number != Column::N && random.u32(0..4) == 0;
            Step::Set(key, number, (!null).then_some(value))
        }
        18..21 => Step::Delete(key),
        21..28 => {
            let operation =
                [Operation::Add, Operation::Add, Operation::Max, Operation::Min][random.usize(0..4)];
            Step::Operate(operation, key, number, value)
        }
        28 | 29 => Step::Put(key, value, random.i64(0..3)),
        _ => Step::Top(key, value, random.i64(0..3)),
    }
}

/// `bounded`: whether the index has an order, so that a part of it can be read.
fn span(random: &mut fastrand::Rng, values: i64, bounded: bool) -> Span {
    if !bounded {
        return Span::default();
    }
    let end = |random: &mut fastrand::Rng| random.bool().then(|| random.i64(1..=values));
    let (from, to) = (end(random), end(random));
    let limit = (random.u32(0..3) == 0).then(|| random.usize(0..4));
    Span { from, to, backward: random.bool(), limit }
}
