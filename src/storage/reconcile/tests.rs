//! Ends of split phases: in an epoch that has no stamps left, and beside commits to what is not split.

use super::*;
use crate::storage::commit::CommitFailure;
use crate::storage::definition::TableDefinition;
use crate::storage::rig::{Rig, Splitting};
use crate::storage::schema::SchemaChange;
use crate::storage::versions::Found;
use crate::storage::word::SEQUENCE_BITS;
use crate::types::{DataType, Value};

/// A record that will be split in its first number, and one that will not.
fn rig() -> Rig {
    let rig = Rig::new(
        TableDefinition::new("t")
            .column("id", DataType::Int64)
            .column("number", DataType::Int64)
            .not_null()
            .column("other", DataType::Int64)
            .primary_key(["id"]),
    );
    for key in 1..3 {
        rig.commit(|writer| writer.insert(&[Value::Int(key), Value::Int(100), Value::Int(0)]))
            .expect("committed");
    }
    rig.seal();
    rig
}

fn add(rig: &Rig, column: usize, highest: Option<Stamp>) -> Result<Stamp, CommitFailure> {
    rig.commit_as(
        &Splitting,
        |_| true,
        |writer| {
            if let Some(highest) = highest {
                writer.set_last_stamp(highest);
            }
            writer.operate(1, column, Operation::Add, &Value::Int(1));
        },
    )
}

/// A stamp of this epoch that leaves this many sequence numbers for commits.
fn leaves(epoch: u64, left: u64) -> Stamp {
    Stamp::new(epoch, (1 << SEQUENCE_BITS) - 3 - left)
}

#[test]
fn a_phase_ends_in_an_epoch_whose_stamps_are_used_up() {
    let rig = rig();
    let (epoch, before) = (rig.store.epochs().current(), rig.word(1).expect("there"));
    let set = rig.begin_split(1, &[(1, 1, Operation::Add)]);
    add(&rig, 1, Some(leaves(epoch, 3))).expect("three are left");
    add(&rig, 1, None).expect("two are left");
    let last = add(&rig, 1, None).expect("one is left");
    assert!(matches!(add(&rig, 1, None), Err(CommitFailure::EpochFull)));
    assert_eq!(rig.word(1), Some(before | SPLIT), "nothing of it is in the record");
    rig.end_split(&set);
    assert_eq!(rig.row(1).expect("there")[1], Value::Int(103));
    let merged = rig.word(1).expect("there");
    assert_eq!((Stamp::of(merged).epoch(), merged & SPLIT), (epoch, 0));
    assert!(Stamp::of(merged) > last, "above all that went into it");
    assert!(matches!(add(&rig, 1, None), Err(CommitFailure::EpochFull)), "the epoch is still used up");
    rig.seal();
    assert_eq!(add(&rig, 1, None).expect("a new epoch").epoch(), epoch + 1);
    assert_eq!(rig.row(1).expect("there")[1], Value::Int(104));
}

/// The record's other columns have the last stamp that a commit can have: the merge is still above it.
#[test]
fn the_word_rises_with_the_merge_where_the_record_itself_has_the_last_stamp() {
    let rig = rig();
    let epoch = rig.store.epochs().current();
    let set = rig.begin_split(1, &[(1, 1, Operation::Add)]);
    add(&rig, 1, Some(leaves(epoch, 2))).expect("two are left");
    let last = add(&rig, 2, None).expect("one is left");
    assert_eq!(rig.word(1), Some(last.present() | SPLIT));
    rig.end_split(&set);
    assert!(Stamp::of(rig.word(1).expect("there")) > last);
    assert_eq!(rig.row(1).expect("there")[1..], [Value::Int(101), Value::Int(1)]);
}

/// A merge with an epoch's very last stamp is replayed from the log as it was.
#[test]
fn a_used_up_epoch_is_replayed_as_it_was() {
    let rig = rig();
    let restored = Rig::new(rig.table.definition().clone());
    restored
        .commit(|writer| writer.insert(&[Value::Int(1), Value::Int(100), Value::Int(0)]))
        .expect("committed");
    restored.seal();
    let set = rig.begin_split(1, &[(1, 1, Operation::Add)]);
    // Its epoch is above that of everything in the second database.
    rig.seal();
    let epoch = rig.store.epochs().current();
    add(&rig, 1, Some(leaves(epoch, 2))).expect("two are left");
    add(&rig, 2, None).expect("one is left");
    rig.end_split(&set);
    let group = rig.seal();
    restored.replay(&group).expect("sound");
    assert_eq!(restored.row(1), rig.row(1));
    restored.replay(&group).expect("sound");
    assert_eq!(restored.row(1), rig.row(1), "once more changes nothing");
}

#[test]
fn what_nobody_has_changed_loses_its_mark_and_nothing_else() {
    let rig = rig();
    let before = (rig.word(1), rig.word(2), rig.row(1));
    let set = rig.begin_split(1, &[(1, 1, Operation::Add), (2, 1, Operation::Max)]);
    assert_eq!(rig.word(2).map(|word| word & SPLIT), Some(SPLIT));
    rig.end_split(&set);
    assert_eq!((rig.word(1), rig.word(2), rig.row(1)), before);
    assert!(rig.store.splits().current(&crossbeam_epoch::pin()).is_none());
}

#[test]
fn one_merge_has_one_stamp_for_all_its_records() {
    let rig = rig();
    let set = rig.begin_split(1, &[(1, 1, Operation::Add), (2, 1, Operation::Max)]);
    add(&rig, 1, None).expect("committed");
    let last = rig
        .commit_as(&Splitting, |_| true, |writer| writer.operate(2, 1, Operation::Max, &Value::Int(500)))
        .expect("committed");
    rig.end_split(&set);
    let words = [1, 2].map(|key| rig.word(key).expect("there"));
    assert_eq!(words[0], words[1]);
    assert!(Stamp::of(words[0]) > last);
    assert_eq!([1, 2].map(|key| rig.row(key).expect("there")[1].clone()), [Value::Int(101), Value::Int(500)]);
}

/// A version that the end of a phase keeps for a snapshot has the columns that were added within the phase.
#[test]
fn a_column_that_is_added_within_a_phase_is_in_the_version_that_its_end_keeps() {
    let mut rig = rig();
    let set = rig.begin_split(1, &[(1, 1, Operation::Add)]);
    let mut definition = rig.table.definition().clone().column("added", DataType::Text);
    definition.added.push(Value::Text("a default of the past".into()));
    let old = rig.table.clone();
    rig.table = Arc::new(old.redefined(definition).0);
    let change = SchemaChange::Replace { old, new: rig.table.clone(), build: None };
    let stamp = Stamp::new(rig.store.epochs().current(), 1);
    rig.store.change_schema([change].into_iter(), stamp, &crossbeam_epoch::pin());
    // It has ended the commits of its epoch.
    rig.seal();
    let written = Value::Text("written within the phase".into());
    rig.commit_as(&Splitting, |_| true, |writer| writer.set(1, 3, &written)).expect("committed");
    add(&rig, 1, None).expect("committed");
    // The end of the phase is in the epoch behind the snapshot's.
    let snapshot = rig.store.versions().open(rig.store.epochs().current());
    rig.seal();
    rig.end_split(&set);
    let (guard, mut words) = (crossbeam_epoch::pin(), vec![0; rig.table.layout().words()]);
    let record = rig.record(1, &guard).expect("there");
    let found = rig.store.versions().read(rig.table.layout(), record, snapshot.epoch(), &mut words);
    assert!(matches!(found, Found::Row(_)));
    // SAFETY: the row was just read, and the thread is pinned.
    let values = unsafe { rig.table.layout().values(&words) };
    assert_eq!(values[1..], [Value::Int(100), Value::Int(0), written.clone()]);
    assert_eq!(rig.row(1).expect("there")[1..], [Value::Int(101), Value::Int(0), written]);
    rig.store.versions().close(&snapshot);
}

/// The growth that a row may have while it is split: half by its slices, half by commits to its other columns.
mod room {
    use super::*;
    use crate::storage::row::{MAXIMAL_ROW_BYTES, byte_length};
    use crate::types::{OrderedTuple, TopK, TupleType};

    const TUPLE: usize = 1;
    const TOP: usize = 2;
    const TEXT: usize = 3;
    const NUMBER: usize = 4;

    fn score() -> TupleType {
        TupleType::new(vec![DataType::Int64], vec![DataType::Text]).expect("a sound type")
    }

    /// A tuple of at least this many bytes.
    fn tuple(order: i64, bytes: usize) -> OrderedTuple {
        let payload = Value::Text("x".repeat(bytes));
        OrderedTuple::new(&score(), &[(&Value::Int(order)).into()], &[(&payload).into()]).expect("a tuple")
    }

    fn rig() -> Rig {
        let rig = Rig::new(
            TableDefinition::new("t")
                .column("id", DataType::Int64)
                .column("tuple", DataType::OrderedTuple(score()))
                .not_null()
                .column("top", DataType::TopK { limit: 4, of: score() })
                .not_null()
                .column("text", DataType::Text)
                .column("number", DataType::Int64)
                .not_null()
                .primary_key(["id"]),
        );
        let top = TopK::of(4, [&tuple(1, 1)]).expect("a set");
        let row = [
            Value::Int(1),
            Value::from(tuple(1, 1)),
            Value::from(top),
            Value::Text("short".into()),
            Value::Int(0),
        ];
        rig.commit(|writer| writer.insert(&row)).expect("committed");
        rig.seal();
        rig
    }

    fn operate(
        rig: &Rig,
        column: usize,
        operation: Operation,
        operand: &Value,
    ) -> Result<Stamp, CommitFailure> {
        rig.commit_as(&Splitting, |_| true, |writer| writer.operate(1, column, operation, operand))
    }

    fn set(rig: &Rig, bytes: usize) -> Result<Stamp, CommitFailure> {
        let text = Value::Text("y".repeat(bytes));
        rig.commit_as(&Splitting, |_| true, |writer| writer.set(1, TEXT, &text))
    }

    fn bytes(rig: &Rig) -> usize {
        rig.row(1).expect("there").iter().map(|value| byte_length(value.into())).sum()
    }

    fn is_stashed(result: &Result<Stamp, CommitFailure>) -> bool {
        matches!(result, Err(CommitFailure::Stash))
    }

    #[test]
    fn a_tuple_that_is_too_long_for_a_slice_waits_for_the_joined_phase() {
        let rig = rig();
        let set = rig.begin_split(1, &[(1, TUPLE, Operation::OrderedPut)]);
        let put = |order, bytes| operate(&rig, TUPLE, Operation::OrderedPut, &tuple(order, bytes).into());
        put(2, MAXIMAL_ROW_BYTES / 2 - 100).expect("it is half of the row");
        assert!(is_stashed(&put(3, MAXIMAL_ROW_BYTES / 2 + 100)));
        put(4, 10).expect("a short one");
        put(5, MAXIMAL_ROW_BYTES / 2 - 100).expect("one takes the other's place: they do not add up");
        rig.end_split(&set);
        put(6, MAXIMAL_ROW_BYTES / 2 + 100).expect("there is room in the row");
        let refused = put(7, MAXIMAL_ROW_BYTES);
        assert!(matches!(refused, Err(CommitFailure::Refused(..))), "{refused:?}");
    }

    #[test]
    fn sets_of_all_worker_contexts_together_fit_into_the_row() {
        let rig = rig();
        let set = rig.begin_split(1, &[(1, TOP, Operation::TopKInsert)]);
        // Ten worker contexts, of which each gives two entries of a twenty-fourth of a row, or more than it has room for.
        let insert = |order, bytes| operate(&rig, TOP, Operation::TopKInsert, &tuple(order, bytes).into());
        let parties = rig.store.worker_contexts().all().count() + NEWCOMERS;
        let share = MAXIMAL_ROW_BYTES / 2 / parties;
        let mut slot_guards = Vec::new();
        for order in 0..3 {
            insert(10 * order, share / 2).expect("half of the share");
            insert(10 * order + 1, share / 2 - 100).expect("the other half");
            assert!(is_stashed(&insert(10 * order + 2, share / 2)), "beyond the share");
            // The next one is another worker context.
            slot_guards.push(rig.store.worker_contexts().take());
        }
        drop(slot_guards);
        rig.end_split(&set);
        let Value::TopK(found) = &rig.row(1).expect("there")[TOP] else { panic!("another type") };
        assert_eq!(found.rows(&score()).expect("sound").len(), 4, "the greatest four");
        assert!(bytes(&rig) <= MAXIMAL_ROW_BYTES);
    }

    #[test]
    fn commits_to_other_columns_leave_the_slices_their_room() {
        let rig = rig();
        let before = bytes(&rig);
        let half = MAXIMAL_ROW_BYTES / 2;
        let split = rig.begin_split(1, &[(1, TUPLE, Operation::OrderedPut), (1, NUMBER, Operation::Add)]);
        set(&rig, half - 100).expect("its half");
        assert!(is_stashed(&set(&rig, half + before)), "the other half is the slices'");
        assert!(is_stashed(&set(&rig, MAXIMAL_ROW_BYTES)), "only the joined phase can tell whether it fits");
        operate(&rig, TUPLE, Operation::OrderedPut, &tuple(2, half - 100).into()).expect("their half");
        operate(&rig, NUMBER, Operation::Add, &Value::Int(1)).expect("it has no bytes");
        rig.end_split(&split);
        assert!((2 * half - 400..=MAXIMAL_ROW_BYTES).contains(&bytes(&rig)), "{}", bytes(&rig));
        let refused = set(&rig, half + 200);
        assert!(matches!(refused, Err(CommitFailure::Refused(..))), "{refused:?}");
    }

    #[test]
    fn a_row_whose_split_columns_have_no_bytes_may_grow_as_ever() {
        let rig = rig();
        let split = rig.begin_split(1, &[(1, NUMBER, Operation::Add)]);
        set(&rig, MAXIMAL_ROW_BYTES - 100).expect("nothing is kept free");
        operate(&rig, NUMBER, Operation::Add, &Value::Int(1)).expect("committed");
        let refused = set(&rig, MAXIMAL_ROW_BYTES);
        assert!(matches!(refused, Err(CommitFailure::Refused(..))), "{refused:?}");
        rig.end_split(&split);
        assert_eq!(rig.row(1).expect("there")[NUMBER], Value::Int(1));
    }

    #[test]
    fn columns_of_one_row_share_its_room() {
        let rig = rig();
        let split = rig.begin_split(1, &[(1, TUPLE, Operation::OrderedPut), (1, TOP, Operation::TopKInsert)]);
        let quarter = MAXIMAL_ROW_BYTES / 4;
        assert!(is_stashed(&operate(&rig, TUPLE, Operation::OrderedPut, &tuple(2, quarter + 100).into())));
        operate(&rig, TUPLE, Operation::OrderedPut, &tuple(2, quarter - 100).into()).expect("its quarter");
        assert!(is_stashed(&operate(&rig, TOP, Operation::TopKInsert, &tuple(2, quarter - 100).into())));
        operate(&rig, TOP, Operation::TopKInsert, &tuple(2, quarter / 20).into()).expect("in its share");
        rig.end_split(&split);
        assert!(bytes(&rig) < MAXIMAL_ROW_BYTES / 2);
    }
}
