//! The straight lines do what the general way does: the same random calls, both ways, leave the same words, rows, slices and
//! redo, and fail with the same words.

use std::cell::Cell;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::storage::rig::{Splitting, Way, Writer};
use crate::storage::split_columns::SplitSet;
use crate::storage::worker_context::WorkerContext;
use crate::types::strategies::int;

const KEYS: i64 = 4;
/// The columns: two that can be split, one of which is narrow, one that may be NULL, and one with blocks.
const WIDE: usize = 1;
const NARROW: usize = 2;
const NULLABLE: usize = 3;
const TEXT: usize = 4;

fn rig() -> Rig {
    let rig = Rig::new(
        TableDefinition::new("t")
            .column("id", DataType::Int64)
            .column("wide", DataType::Int64)
            .not_null()
            .column("narrow", DataType::Int32)
            .not_null()
            .column("nullable", DataType::Int64)
            .column("text", DataType::Text)
            .primary_key(["id"]),
    );
    for key in 0..KEYS {
        let nullable = if key % 2 == 0 { Value::Null } else { Value::Int(5) };
        let row = [Value::Int(key), Value::Int(10), Value::Int(10), nullable, Value::Text("text".into())];
        rig.commit(|writer| writer.insert(&row)).expect("committed");
    }
    rig
}

/// A write of a call to one row.
#[derive(Clone, Debug)]
enum Write {
    Set(i64, usize, Value),
    Operate(i64, usize, Operation, i64),
    Delete(i64),
    Insert(i64, i64),
}

#[derive(Clone, Debug)]
enum Step {
    Call {
        writes: Vec<Write>,
        /// True if its reads hold; and the stamp that the validation meets.
        holds: bool,
        meets: Option<u64>,
        /// The room in the log that it has, if that is little.
        credit: Option<usize>,
    },
    /// The epoch ends.
    Seal,
    /// Columns are split, if none is; or no more.
    Split(Vec<(i64, usize, Operation)>),
    Join,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop::sample::select(vec![Operation::Add, Operation::Max, Operation::Min, Operation::Multiply])
}

fn operand() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -3..4_i64, 1 => int(i32::MIN.into(), i32::MAX.into()), 1 => int(i64::MIN, i64::MAX)]
}

fn write() -> impl Strategy<Value = Write> {
    let key = 0..KEYS;
    let number = prop_oneof![Just(WIDE), Just(NARROW), Just(NULLABLE)];
    prop_oneof![
        // An operand that the column does not take is refused before the commit.
        8 => (key.clone(), number.clone(), operation(), operand()).prop_map(|(key, column, operation, operand)| {
            Write::Operate(key, column, operation, if column == NARROW { operand as i32 as i64 } else { operand })
        }),
        3 => (key.clone(), number, operand()).prop_map(|(key, column, value)| {
            Write::Set(key, column, Value::Int(if column == NARROW { value as i32 as i64 } else { value }))
        }),
        1 => key.clone().prop_map(|key| Write::Set(key, NULLABLE, Value::Null)),
        1 => (key.clone(), 0..30_usize).prop_map(|(key, length)| {
            Write::Set(key, TEXT, Value::Text("x".repeat(length)))
        }),
        1 => key.clone().prop_map(Write::Delete),
        2 => (key, 0..100_i64).prop_map(|(key, number)| Write::Insert(key, number)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let writes = prop_oneof![
        6 => write().prop_map(|write| vec![write]),
        1 => prop::collection::vec(write(), 1..4),
    ];
    let meets = prop::option::weighted(0.1, 0..3_u64);
    let credit = prop::option::weighted(0.1, 0..200_usize);
    let call = (writes, prop::bool::weighted(0.9), meets, credit)
        .prop_map(|(writes, holds, meets, credit)| Step::Call { writes, holds, meets, credit });
    let column = (0..KEYS, prop_oneof![Just(WIDE), Just(NARROW)], operation());
    prop_oneof![
        16 => call,
        1 => Just(Step::Seal),
        1 => prop::collection::vec(column, 1..5).prop_map(Step::Split),
        1 => Just(Step::Join),
    ]
}

impl Write {
    fn buffer(&self, writer: &mut Writer<'_>) {
        match self {
            Write::Set(key, column, value) => writer.set(*key, *column, value),
            Write::Operate(key, column, operation, operand) => {
                writer.operate(*key, *column, *operation, &Value::Int(*operand));
            }
            Write::Delete(key) => writer.delete(*key),
            Write::Insert(key, number) => {
                let number = Value::Int(*number);
                let text = Value::Text("a new one, with a block".into());
                writer.insert(&[Value::Int(*key), number.clone(), number, Value::Null, text]);
            }
        }
    }
}

/// A store, and what is split in it.
struct Side {
    way: Way,
    rig: Rig,
    split: Option<Arc<SplitSet>>,
    phase: u64,
}

impl Side {
    fn new(way: Way) -> Side {
        Side { way, rig: rig(), split: None, phase: 0 }
    }

    /// Takes a step; returns all that can be seen of it.
    fn take<T: WriteLocking>(&mut self, locking: &T, step: &Step) -> String {
        let mut seen = match step {
            Step::Call { writes, holds, meets, credit } => {
                let epoch = self.rig.store.epochs().current();
                let validate = |seen: &Cell<Stamp>| {
                    if let Some(later) = meets {
                        seen.set(seen.get().max(Stamp::new(epoch + later / 2, 50)));
                    }
                    *holds
                };
                let ended = self.rig.commit_in(self.way, locking, validate, |writer| {
                    if let Some(credit) = credit {
                        writer.set_log_credit(*credit);
                    }
                    writes.iter().for_each(|write| write.buffer(writer));
                });
                format!("{ended:?}")
            }
            Step::Seal => format!("{:?}", self.rig.seal()),
            Step::Split(columns) if T::SPLITS && self.split.is_none() => {
                let mut columns = columns.clone();
                columns.sort_by_key(|&(key, column, _)| (key, column));
                columns.dedup_by_key(|&mut (key, column, _)| (key, column));
                columns.retain(|&(key, ..)| self.rig.row(key).is_some());
                if columns.is_empty() {
                    return String::new();
                }
                // A phase begins with an epoch.
                let redo = self.rig.seal();
                self.phase += 1;
                self.split = Some(self.rig.begin_split(self.phase, &columns));
                format!("{redo:?}")
            }
            Step::Join => {
                if let Some(set) = self.split.take() {
                    self.rig.end_split(&set);
                }
                String::new()
            }
            Step::Split(_) => String::new(),
        };
        let words: Vec<Option<u64>> = (0..KEYS).map(|key| self.rig.word(key)).collect();
        seen += &format!("; {words:?}; {:?}; {:?}", self.rig.rows(), self.operations());
        seen
    }

    /// The number of operations that the slices of each split column have taken.
    fn operations(&self) -> Vec<u64> {
        let worker_contexts = || self.rig.store.worker_contexts().all().map(WorkerContext::slices);
        let count = |number| worker_contexts().map(|slices| slices.writes(self.phase, number)).sum();
        let columns = self.split.as_ref().map_or(0, |set| set.columns().len());
        (0..columns).map(count).collect()
    }
}

fn both_ways<T: WriteLocking>(locking: &T, steps: &[Step]) -> std::result::Result<(), TestCaseError> {
    let (mut usual, mut general) = (Side::new(Way::Usual), Side::new(Way::General));
    for (number, step) in steps.iter().chain(&[Step::Join, Step::Seal]).enumerate() {
        let (one, other) = (usual.take(locking, step), general.take(locking, step));
        prop_assert_eq!(one, other, "step {}: {:?}", number, step);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn where_rivals_are_excluded(steps in prop::collection::vec(step(), 1..60)) {
        both_ways(&Excluded, &steps)?;
    }

    #[test]
    fn where_records_are_taken(steps in prop::collection::vec(step(), 1..60)) {
        both_ways(&InOrder, &steps)?;
    }

    #[test]
    fn where_columns_are_split(steps in prop::collection::vec(step(), 1..60)) {
        both_ways(&Splitting, &steps)?;
    }
}

/// The comparison is worth nothing where the straight lines are not taken.
#[test]
fn a_difference_would_be_found() {
    let step = Step::Call {
        writes: vec![Write::Operate(1, WIDE, Operation::Add, 1)],
        holds: true,
        meets: None,
        credit: None,
    };
    let (mut one, mut other) = (Side::new(Way::Usual), Side::new(Way::General));
    assert_eq!(one.take(&InOrder, &step), other.take(&InOrder, &step));
    let next = Step::Call {
        writes: vec![Write::Operate(1, WIDE, Operation::Add, 2)],
        holds: true,
        meets: None,
        credit: None,
    };
    assert_ne!(one.take(&InOrder, &step), other.take(&InOrder, &next), "another row");
    assert_ne!(one.take(&InOrder, &Step::Seal), other.take(&InOrder, &Step::Seal), "another redo");
}
