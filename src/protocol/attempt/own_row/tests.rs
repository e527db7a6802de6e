//! The usual accesses do what the general ones do: the same random body, both ways, sees the same, and its commit has
//! the same outcome, beside the same rivals.

use std::cell::Cell;

use crossbeam_epoch::pin;
use proptest::prelude::*;

use super::super::{Access, DIRECT, TRACKED, Target};
use super::*;
use crate::error::Result;
use crate::operation::Operation;
use crate::protocol::Held;
use crate::protocol::footprint::Reference;
use crate::storage::commit::InOrder;
use crate::storage::definition::TableDefinition;
use crate::storage::rig::{Rig, TABLE};
use crate::storage::worker_context::Memory;
use crate::types::strategies::int;
use crate::types::{DataType, Value, ValueRef};

const KEYS: i64 = 4;
/// A key that is in the table, and whose row has been deleted.
const DELETED: i64 = 4;
/// A key that was never there.
const MISSING: i64 = 5;

/// Plain integers, wide and narrow, one that may be NULL, one that is indexed, and a text.
const COLUMNS: usize = 5;
const INDEXED: usize = 4;
const TEXT: usize = 5;

static BY_READ: Access = Access { reading: Reading::ByRead, ..TRACKED };

fn rig() -> Rig {
    let rig = Rig::new(
        TableDefinition::new("t")
            .column("id", DataType::Int64)
            .column("wide", DataType::Int64)
            .not_null()
            .column("narrow", DataType::Int32)
            .not_null()
            .column("nullable", DataType::Int64)
            .column("indexed", DataType::Int64)
            .column("text", DataType::Text)
            .primary_key(["id"])
            .index("by indexed", ["indexed"]),
    );
    for key in 0..=DELETED {
        let nullable = if key % 2 == 0 { Value::Null } else { Value::Int(5) };
        let text = Value::Text(format!("the text of {key}"));
        let ten = || Value::Int(10);
        rig.commit(|writer| writer.insert(&[Value::Int(key), ten(), ten(), nullable, ten(), text]))
            .expect("committed");
    }
    rig.commit(|writer| writer.delete(DELETED)).expect("committed");
    rig.seal();
    rig
}

#[derive(Clone, Debug)]
enum Step {
    /// An action on a key, and whether its row was found before the body ran.
    Act(i64, Mode, bool, Vec<Do>),
    /// A closure's changes to the row of a key; it has declared nothing.
    Close(i64, Vec<Do>),
    /// A rival changes a row, or deletes it.
    Rival(i64, Option<i64>),
}

/// One access of an action's body to its row.
#[derive(Clone, Debug)]
enum Do {
    Look,
    Set(usize, i64),
    SetAll(Vec<(usize, i64)>),
    Operate(usize, Operation, i64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = prop_oneof![12 => 0..KEYS, 1 => Just(DELETED), 1 => Just(MISSING)];
    let number = prop_oneof![8 => -3..4_i64, 1 => int(i64::MIN, i64::MAX)];
    let column = 0..=COLUMNS;
    let does = prop_oneof![
        3 => Just(Do::Look),
        2 => (column.clone(), number.clone()).prop_map(|(column, value)| Do::Set(column, value)),
        2 => prop::collection::vec((column.clone(), number.clone()), 0..4).prop_map(Do::SetAll),
        3 => (column, prop::sample::select(Operation::ALL), number.clone())
            .prop_map(|(column, operation, operand)| Do::Operate(column, operation, operand)),
    ];
    let mode = prop_oneof![1 => Just(Mode::Read), 4 => Just(Mode::Write), 2 => Just(Mode::Commute)];
    let does = prop::collection::vec(does, 1..4);
    let act = (key.clone(), mode, prop::bool::weighted(0.9), does.clone());
    prop_oneof![
        4 => (key, does).prop_map(|(key, does)| Step::Close(key, does)),
        6 => act.prop_map(|(key, mode, found, does)| Step::Act(key, mode, found, does)),
        1 => (0..KEYS, prop::option::weighted(0.8, number)).prop_map(|(key, value)| Step::Rival(key, value)),
    ]
}

/// The way of a body's accesses: the usual one where it applies, or the general one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Usual,
    General,
}

/// One action's row, as its body reaches it.
struct Row<'r, 'a> {
    attempt: &'r Attempt<'a>,
    rig: &'a Rig,
    way: Way,
    target: Target<'r, 'a>,
    taken: &'r Cell<usize>,
}

impl Row<'_, '_> {
    fn does(&self, what: &Do) -> String {
        match *what {
            Do::SetAll(ref changes) => {
                let changes: Vec<_> =
                    changes.iter().map(|&(column, value)| (column, ValueRef::Int(value))).collect();
                let usual = || self.attempt.set_ints(&self.target, &changes).then_some(());
                let generally = || self.attempt.update(&self.target, &changes);
                format!("{:?}", self.usually(usual).map_or_else(generally, Ok))
            }
            Do::Look => {
                let at_once = self.usually(|| self.attempt.row_at_once(self.target.table, self.target.found));
                let row = at_once.map_or_else(|| self.attempt.get(&self.target), |row| Ok(Some(row)));
                // SAFETY: the row is in the attempt's arena, its blocks are pinned or there too.
                let values = |row: &[u64]| unsafe { self.rig.table.layout().values(row) };
                format!("{:?}", row.map(|row| row.map(values)))
            }
            Do::Set(column, value) => {
                let generally = || self.attempt.update(&self.target, &[(column, ValueRef::Int(value))]);
                self.change(column, IntChange::Set(value), generally)
            }
            Do::Operate(column, operation, operand) => {
                let value = ValueRef::Int(operand);
                let generally = || self.attempt.operate(&self.target, column, operation, value);
                self.change(column, IntChange::Operate(operation, operand), generally)
            }
        }
    }

    fn change(&self, column: usize, change: IntChange, generally: impl FnOnce() -> Result<()>) -> String {
        let found = self.target.found;
        let usual = || match self.target.declared {
            true => self.attempt.change_int(&self.rig.table, found, column, change).then_some(()),
            false => self.attempt.change_int_of(&self.target, column, change).then_some(()),
        };
        format!("{:?}", self.usually(usual).map_or_else(generally, Ok))
    }

    /// Takes the usual way, if that is asked for; `None` if it was not, or was not possible.
    fn usually<T>(&self, usual: impl FnOnce() -> Option<T>) -> Option<T> {
        let done = if self.way == Way::Usual { usual() } else { None };
        self.taken.set(self.taken.get() + usize::from(done.is_some()));
        done
    }
}

/// Runs a body and commits it; returns all that can be seen, and the number of accesses that took the usual way.
fn run(way: Way, access: &'static Access, steps: &[Step]) -> (String, usize) {
    let (rig, guard) = (rig(), pin());
    let mut slot_guard = rig.store.worker_contexts().take();
    let (worker_context, memory) = slot_guard.parts();
    let Memory { workspace, reads, arena } = memory;
    workspace.log_credit = usize::MAX / 2;
    let (mut held, taken) = (Held::default(), Cell::new(0));
    let attempt = Attempt::new(&rig.store, worker_context, &guard, arena, workspace, reads, &mut held, None);
    attempt.set_access(access);
    let mut seen = String::new();
    for step in steps {
        match step {
            Step::Rival(key, value) if !std::ptr::eq(access, &DIRECT) && rig.row(*key).is_some() => {
                rig.commit(|writer| match value {
                    Some(value) => writer.set(*key, 1, &Value::Int(*value)),
                    None => writer.delete(*key),
                })
                .expect("committed");
            }
            Step::Rival(..) => {}
            Step::Act(key, mode, found, does) => {
                let reference = reference(&rig, *key, *mode);
                let _scope = attempt.enter_scope(&reference);
                let target = Target {
                    table: &rig.table,
                    key: &reference.key,
                    hash: reference.hash,
                    found: if *found { rig.record(*key, &guard) } else { None },
                    declared: true,
                };
                let row = Row { attempt: &attempt, rig: &rig, way, target, taken: &taken };
                does.iter().for_each(|what| seen += &format!("{}; ", row.does(what)));
            }
            Step::Close(key, does) => {
                let Reference { key, hash, .. } = reference(&rig, *key, Mode::Write);
                let target = Target { table: &rig.table, key: &key, hash, found: None, declared: false };
                let row = Row { attempt: &attempt, rig: &rig, way, target, taken: &taken };
                does.iter().for_each(|what| seen += &format!("{}; ", row.does(what)));
            }
        }
    }
    seen += &format!("seen {:?}; {}", attempt.seen(), end(&attempt));
    drop(attempt);
    seen += &format!("; {:?}; {:?}", rig.rows(), rig.seal());
    (seen, taken.get())
}

fn reference(rig: &Rig, key: i64, mode: Mode) -> Reference {
    let key = rig.table.encode_key(&[key.into()], true).expect("an integer key");
    let hash = rig.table.hash(&key);
    Reference { table: TABLE, key, hash, whole: true, mode, ..Reference::default() }
}

fn end(attempt: &Attempt<'_>) -> String {
    let reads = attempt.reads().borrow();
    if attempt.workspace().borrow().writes.is_empty() {
        return format!("holds: {}", reads.still_holds(|_| false, attempt.highest_seen()));
    }
    let committed = attempt
        .commit(&InOrder, |taken| reads.still_holds(|record| taken.is_own(record), attempt.highest_seen()));
    format!("{committed:?}; seen {:?}", attempt.seen())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_body_sees_and_does_the_same_both_ways(
        steps in prop::collection::vec(step(), 1..12),
        access in prop::sample::select(vec![0, 1, 2]),
    ) {
        let access = [&DIRECT, &TRACKED, &BY_READ][access];
        let ((usual, _), (general, _)) =
            (run(Way::Usual, access, &steps), run(Way::General, access, &steps));
        prop_assert_eq!(usual, general);
    }
}

#[test]
fn the_usual_way_is_taken_for_the_usual_accesses_and_for_no_others() {
    let look = [Step::Act(1, Mode::Read, true, vec![Do::Look])];
    assert_eq!((run(Way::Usual, &TRACKED, &look).1, run(Way::Usual, &BY_READ, &look).1), (1, 0));
    let one = |mode, what: Do| run(Way::Usual, &TRACKED, &[Step::Act(1, mode, true, vec![what])]).1;
    assert_eq!(one(Mode::Write, Do::Set(1, 7)), 1);
    assert_eq!(one(Mode::Commute, Do::Operate(1, Operation::Add, 7)), 1);
    for (mode, what) in [
        (Mode::Read, Do::Set(1, 7)),
        (Mode::Commute, Do::Set(1, 7)),
        (Mode::Read, Do::Operate(1, Operation::Add, 7)),
        (Mode::Write, Do::Set(0, 7)),
        (Mode::Write, Do::Set(INDEXED, 7)),
        (Mode::Write, Do::Set(TEXT, 7)),
        (Mode::Write, Do::Operate(1, Operation::OrderedPut, 7)),
    ] {
        assert_eq!(one(mode, what.clone()), 0, "{mode:?} {what:?}");
    }
    let twice = vec![Do::Set(1, 7), Do::Set(2, 8), Do::Look];
    assert_eq!(
        run(Way::Usual, &TRACKED, &[Step::Act(1, Mode::Write, true, twice)]).1,
        2,
        "changed, not looked at"
    );
    for key in [DELETED, MISSING] {
        for step in
            [Step::Act(key, Mode::Write, true, vec![Do::Set(1, 7)]), Step::Close(key, vec![Do::Set(1, 7)])]
        {
            assert_eq!(run(Way::Usual, &TRACKED, std::slice::from_ref(&step)).1, 0, "{step:?}");
        }
    }
}

#[test]
fn closures_change_integers_the_usual_way_and_nothing_else() {
    let one = |what: Do| run(Way::Usual, &TRACKED, &[Step::Close(1, vec![what])]).1;
    for what in [Do::Set(1, 7), Do::Operate(1, Operation::Add, 7), Do::Operate(3, Operation::Max, 7)] {
        assert_eq!(one(what.clone()), 1, "{what:?}");
    }
    for what in [
        Do::Set(0, 7),
        Do::Set(2, i64::MAX),
        Do::Set(INDEXED, 7),
        Do::Operate(TEXT, Operation::Add, 7),
        Do::Operate(1, Operation::OrderedPut, 7),
    ] {
        assert_eq!(one(what.clone()), 0, "{what:?}");
    }
    let again = vec![Do::Look, Do::Set(1, 7), Do::Operate(1, Operation::Add, 1)];
    assert_eq!(
        run(Way::Usual, &TRACKED, &[Step::Close(1, again)]).1,
        2,
        "both changes of the row that was read"
    );
}

#[test]
fn several_integers_are_set_the_usual_way_together_or_not_at_all() {
    let plain = Do::SetAll(vec![(1, 7), (2, 8), (3, 9)]);
    let count = |step: Step| run(Way::Usual, &TRACKED, &[step]).1;
    let act = |mode, what: &Do| count(Step::Act(1, mode, true, vec![what.clone()]));
    let close = |what: &Do| count(Step::Close(1, vec![what.clone()]));
    assert_eq!((act(Mode::Write, &plain), close(&plain)), (1, 1));
    assert_eq!((act(Mode::Read, &plain), act(Mode::Commute, &plain)), (0, 0));
    for others in [
        vec![],
        vec![(1, 7), (INDEXED, 8)],
        vec![(1, 7), (2, i64::MAX)],
        vec![(1, 7), (TEXT, 8)],
        vec![(1, 7), (0, 8)],
    ] {
        let others = Do::SetAll(others);
        assert_eq!((act(Mode::Write, &others), close(&others)), (0, 0), "{others:?}");
    }
    assert_eq!(count(Step::Close(DELETED, vec![plain.clone()])), 0);
    assert_eq!(count(Step::Close(MISSING, vec![plain])), 0);
}

#[test]
fn a_closure_within_a_footprint_is_checked_by_its_key() {
    let (rig, guard) = (rig(), pin());
    let mut slot_guard = rig.store.worker_contexts().take();
    let (worker_context, memory) = slot_guard.parts();
    let Memory { workspace, reads, arena } = memory;
    let mut held = Held::default();
    let attempt = Attempt::new(&rig.store, worker_context, &guard, arena, workspace, reads, &mut held, None);
    attempt.set_access(&TRACKED);
    let (declared, other) = (reference(&rig, 1, Mode::Write), reference(&rig, 2, Mode::Write));
    let _scope = attempt.enter_scope(&declared);
    for Reference { key, hash, .. } in [&declared, &other] {
        let target = Target { table: &rig.table, key, hash: *hash, found: None, declared: false };
        assert!(!attempt.change_int_of(&target, 1, IntChange::Set(7)), "left to the general way");
        assert!(!attempt.set_ints(&target, &[(1, ValueRef::Int(7))]), "this, too");
        assert_eq!(attempt.update(&target, &[(1, ValueRef::Int(7))]).is_ok(), *key == declared.key);
    }
}
