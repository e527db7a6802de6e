//! Random histories: epochs of commits and split phases, run and logged as an engine does, then replayed.

use std::collections::BTreeMap;

use crossbeam_epoch::pin;
use proptest::prelude::*;

use super::*;
use crate::storage::slice::Slice;
use crate::types::strategies::{int, nullable_value, ordered_tuple, row_of, value};
use crate::types::{TupleType, Value};

mod copied;

const KEYS: i64 = 3;
const PARTICIPANTS: usize = 3;

/// The columns behind the key: those that may be split, then two that never are.
fn types() -> Vec<DataType> {
    let of = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).expect("scalars");
    vec![
        DataType::Int64,
        DataType::Int32,
        DataType::Decimal { precision: 8, scale: 2 },
        DataType::Float64,
        DataType::TopK { limit: 3, of: of.clone() },
        DataType::OrderedTuple(of),
        DataType::Int64,
        DataType::Text,
    ]
}

const SPLITTABLE: usize = 6;

fn empty_rig() -> Rig {
    let table = TableDefinition::new("t").column("id", DataType::Int64);
    let columns = types().into_iter().enumerate();
    let table = columns.fold(table, |table, (at, of)| table.column(format!("c{at}"), of));
    Rig::new(table.primary_key(["id"]))
}

#[derive(Clone, Debug)]
enum Step {
    Insert(i64, Vec<Value>),
    Delete(i64),
    Set(i64, usize, Value),
    /// By this worker context, with this sequence number if the column is split.
    Operate(usize, u64, i64, usize, Operation, Value),
    /// The epoch ends; whether its merged operations are first in the group.
    Seal(bool),
    /// The epoch ends, and these columns are split for these operations from the next one on.
    Split(Vec<(i64, usize, Operation)>),
    /// The split phase ends inside the epoch.
    Reconcile,
}

fn operation_on(column: usize) -> impl Strategy<Value = Operation> {
    let of = types()[column - 1].clone();
    let fitting = Operation::ALL.iter().copied().filter(move |operation| operation.splittable(&of));
    prop::sample::select(fitting.collect::<Vec<_>>())
}

fn operand(column: usize) -> BoxedStrategy<Value> {
    match types()[column - 1].clone() {
        DataType::Int64 | DataType::Int32 => {
            prop_oneof![4 => int(-9, 9), 1 => int(i32::MIN.into(), i32::MAX.into())]
                .prop_map(Value::from)
                .boxed()
        }
        DataType::TopK { of, .. } => ordered_tuple(of).prop_map(Value::from).boxed(),
        other => value(&other),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let column = 1..=SPLITTABLE;
    let operate = column.clone().prop_flat_map(|column| {
        (0..PARTICIPANTS, 1..60_u64, 0..KEYS, Just(column), operation_on(column), operand(column))
    });
    let set = (1..=types().len()).prop_flat_map(|at| (0..KEYS, Just(at), nullable_value(&types()[at - 1])));
    let split =
        (0..KEYS, column).prop_flat_map(|(key, column)| (Just(key), Just(column), operation_on(column)));
    prop_oneof![
        2 => (0..KEYS, row_of(types())).prop_map(|(key, row)| Step::Insert(key, row)),
        1 => (0..KEYS).prop_map(Step::Delete),
        4 => set.prop_map(|(key, column, value)| Step::Set(key, column, value)),
        12 => operate.prop_map(|(party, sequence, key, column, operation, operand)| {
            Step::Operate(party, sequence, key, column, operation, operand)
        }),
        4 => any::<bool>().prop_map(Step::Seal),
        2 => prop::collection::vec(split, 1..7).prop_map(Step::Split),
        1 => Just(Step::Reconcile),
    ]
}

/// The rows after all calls so far.
type Model = BTreeMap<i64, Vec<Value>>;

/// A split column: its operation, and the value that does not change.
struct Column {
    operation: Operation,
    base: Value,
    /// The merged operations of each worker context since the phase began.
    totals: [Slice; PARTICIPANTS],
}

/// The merged operations of a worker context in an epoch on the split columns of a record.
type OfRecord = BTreeMap<usize, (Operation, Slice)>;

#[derive(Default)]
struct Phase {
    since: u64,
    columns: BTreeMap<(i64, usize), Column>,
}

/// A database whose commits go to a live store, and which keeps the slices itself.
struct Engine {
    live: Rig,
    model: Model,
    phase: Phase,
    /// The merged operations of each worker context in this epoch, by column of which phase.
    merged: [BTreeMap<i64, OfRecord>; PARTICIPANTS],
    stamps: [Stamp; PARTICIPANTS],
    groups: Vec<Vec<u8>>,
    states: Vec<Model>,
}

fn apply(operation: Operation, current: &Value, operand: ValueRef<'_>, of: &DataType) -> Result<Value> {
    let mut buffer = Vec::new();
    let applied = operation.apply(current.into(), operand, of, &mut buffer)?;
    Ok(applied.value(current.into(), &buffer).to_value())
}

impl Engine {
    fn new() -> Engine {
        Engine {
            live: empty_rig(),
            model: Model::new(),
            phase: Phase::default(),
            merged: Default::default(),
            stamps: [Stamp::ZERO; PARTICIPANTS],
            groups: Vec::new(),
            states: Vec::new(),
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Insert(key, row) if !self.model.contains_key(key) => {
                let mut values = vec![Value::Int(*key)];
                values.extend(row.iter().cloned());
                self.live.commit(|writer| writer.insert(&values)).expect("committed");
                self.model.insert(*key, values);
            }
            Step::Delete(key) if self.model.contains_key(key) && !self.is_split(*key) => {
                self.live.commit(|writer| writer.delete(*key)).expect("committed");
                self.model.remove(key);
            }
            Step::Set(key, column, value) if !self.phase.columns.contains_key(&(*key, *column)) => {
                let Some(row) = self.model.get_mut(key) else { return };
                self.live.commit(|writer| writer.set(*key, *column, value)).expect("committed");
                row[*column] = value.clone();
            }
            Step::Operate(party, sequence, key, column, operation, operand) => {
                self.operate(*party, *sequence, (*key, *column), *operation, operand);
            }
            Step::Seal(merged_first) => self.seal(*merged_first),
            Step::Split(columns) => {
                self.reconcile();
                self.seal(false);
                self.split(columns);
            }
            Step::Reconcile => self.reconcile(),
            // A call that finds the row already, or not; or that waits for the end of the phase.
            _ => {}
        }
    }

    fn is_split(&self, key: i64) -> bool {
        self.phase.columns.keys().any(|(split, _)| *split == key)
    }

    fn epoch(&self) -> u64 {
        self.live.store.epochs().current()
    }

    fn split(&mut self, columns: &[(i64, usize, Operation)]) {
        self.phase.since = self.epoch();
        for &(key, column, operation) in columns {
            let base = self.model.get(&key).map_or(Value::Null, |row| row[column].clone());
            if !base.is_null() {
                let totals = Default::default();
                self.phase.columns.insert((key, column), Column { operation, base, totals });
            }
        }
    }

    fn operate(
        &mut self,
        party: usize,
        sequence: u64,
        (key, column): (i64, usize),
        operation: Operation,
        operand: &Value,
    ) {
        let Some(row) = self.model.get_mut(&key) else { return };
        let of = &types()[column - 1];
        let operand = operation.check_operand(operand.into(), of).expect("made for it");
        let Some(split) = self.phase.columns.get_mut(&(key, column)) else {
            let Ok(value) = apply(operation, &row[column], operand, of) else { return };
            row[column] = value;
            let operand = operand.to_value();
            self.live.commit(|writer| writer.operate(key, column, operation, &operand)).expect("it succeeds");
            return;
        };
        let mut buffer = Vec::new();
        let mut total = split.totals[party].clone();
        if total.merge(operation, operand, of, &mut buffer).is_err() {
            return;
        }
        let fits = |total| operation.fits((&split.base).into(), total, of, PARTICIPANTS as u32);
        if split.operation != operation || !total.value().is_some_and(fits) {
            return;
        }
        let merged = self.merged[party].entry(key).or_default();
        let (_, slice) = merged.entry(column).or_insert_with(|| (operation, Slice::default()));
        if slice.merge(operation, operand, of, &mut buffer).is_err() {
            return;
        }
        split.totals[party] = total;
        row[column] = apply(operation, &row[column], operand, of).expect("it fits");
        let stamp = Stamp::new(self.live.store.epochs().current(), sequence);
        self.stamps[party] = self.stamps[party].max(stamp);
    }

    fn seal(&mut self, merged_first: bool) {
        let ordinary = self.live.seal();
        let mut merged = Vec::new();
        for (records, stamp) in self.merged.iter_mut().zip(self.stamps) {
            let mut part = Part::new();
            let is_empty = records.is_empty();
            for (key, columns) in std::mem::take(records) {
                let columns: Vec<_> = columns
                    .iter()
                    .filter_map(|(at, (operation, slice))| Some((*at, *operation, slice.value()?)))
                    .collect();
                part = part.record(&self.live, key, self.phase.since, &columns);
            }
            if !is_empty {
                merged.push(part.finish(stamp));
            }
        }
        let merged = merged.concat();
        self.groups.push(if merged_first { [merged, ordinary] } else { [ordinary, merged] }.concat());
        self.states.push(self.model.clone());
    }

    /// Applies all slices, as one install for each record, stamped with the phase's highest stamp.
    fn reconcile(&mut self) {
        let (guard, arena) = (pin(), Bump::new());
        let highest = self.stamps.into_iter().max().expect("some");
        let table = &self.live.table;
        for ((key, column), split) in std::mem::take(&mut self.phase.columns) {
            let record = self.live.record(key, &guard).expect("it is never deleted");
            let image = arena.alloc_slice_fill_copy(table.layout().words(), 0);
            record.read(table.layout(), image);
            let of = &types()[column - 1];
            let value =
                split.totals.iter().filter_map(Slice::value).fold(split.base, |value, total| {
                    apply(split.operation, &value, total, of).expect("it fits")
                });
            table.layout().put(image, column, (&value).into(), &arena).expect("memory");
            install_row(table, record, image).expect("a row of this key");
            raise_to(record, highest);
        }
        assert_eq!(rows(&self.live), self.model, "the slices come to something else than the calls");
    }
}

fn rows(rig: &Rig) -> Model {
    (0..KEYS).filter_map(|key| Some((key, rig.row(key)?))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 250 } else { 3_000 }))]

    #[test]
    fn a_log_with_split_phases_makes_what_the_calls_have_done_and_twice_is_once(
        inserts in prop::collection::vec(row_of(types()), KEYS as usize),
        steps in prop::collection::vec(step(), 0..80),
        twice in any::<u64>(),
        shares in 1..5_usize,
    ) {
        let mut engine = Engine::new();
        for (key, row) in inserts.into_iter().enumerate() {
            engine.run(&Step::Insert(key as i64, row));
        }
        steps.iter().for_each(|step| engine.run(step));
        engine.seal(false);
        let restored = empty_rig();
        for (at, (group, state)) in engine.groups.iter().zip(&engine.states).enumerate() {
            restored.replay(group).expect("what was logged");
            prop_assert_eq!(&rows(&restored), state, "group {} of {}", at, engine.groups.len());
            if twice >> (at % 64) & 1 == 1 {
                let before = restored.rows();
                restored.replay(group).expect("again");
                prop_assert_eq!(restored.rows(), before, "group {} replayed twice", at);
            }
        }
        let once = restored.rows();
        let in_shares = empty_rig();
        in_shares.replay_in_shares(&engine.groups, shares).expect("what was logged");
        prop_assert_eq!(&in_shares.rows(), &once, "in {} shares", shares);
        for group in &engine.groups {
            restored.replay(group).expect("all of it again");
        }
        prop_assert_eq!(restored.rows(), once, "all of it replayed twice");
        engine.reconcile();
        prop_assert_eq!(rows(&engine.live), rows(&restored));
    }
}
