//! Tests of the contents of a change: values, operations, merged operations.

use heddledb::{
    Change, ColumnChange, DataType, Error, PhasedOptions, SplitOperation, TableDefinition, TupleType, Value,
    ValueRef, key, row,
};

use super::copy::{Copy, int, now};
use crate::support::concurrent::{on_disk, small, watched};

fn entry_type() -> TupleType {
    TupleType::new(vec![DataType::Int64], vec![DataType::Int64]).expect("a type")
}

#[test]
fn each_kind_of_change_says_what_the_log_has() {
    watched(|| {
        let (db, _disk) = on_disk(small());
        let definition = TableDefinition::new("thing")
            .column("code", DataType::Text)
            .column("part", DataType::Date)
            .column("n", DataType::Int64)
            .column("name", DataType::Text)
            .column("top", DataType::TopK { limit: 2, of: entry_type() })
            .primary_key(["part", "code"]);
        let table = db.create_table(definition).expect("a table");
        let mut feed = db.watch(&table, now(&db)).expect("a feed");
        let day: heddledb::Date = "2026-11-23".parse().expect("a date");
        let mut change = |body: &dyn Fn(&heddledb::Tx<'_, '_>) -> heddledb::Result<()>| {
            db.run(|tx| body(tx)).expect("a transaction");
            feed.next().expect("a batch").into_iter().collect::<Vec<_>>()
        };
        let key = key![day, "abc"];
        let inserted = change(&|tx| tx.insert(&table, row!["abc", day, 1, "x".repeat(300), Value::Null]));
        let [Change::Insert { key: found, row }] = &inserted[..] else { panic!("{inserted:?}") };
        assert_eq!(found[..], [Value::Date(day), Value::from("abc")], "the key's columns in the key's order");
        assert_eq!((row.int("n"), row.text("name").map(str::len)), (Ok(1), Ok(300)));
        let updated = change(&|tx| {
            tx.add(&table, key, "n", 4)?;
            tx.update(&table, key, &[("name", ValueRef::Null)])
        });
        let [Change::Update { columns, .. }] = &updated[..] else { panic!("{updated:?}") };
        let all: Vec<_> = columns.iter().collect();
        let expected = [("n", &ColumnChange::Set(5.into())), ("name", &ColumnChange::Set(Value::Null))];
        assert_eq!(all, expected, "an operation that is not split is logged as the value that it came to");
        let entries = change(&|tx| {
            [3, 9, 5].iter().try_for_each(|&n| tx.top_k_insert(&table, key, "top", &[n.into()], &[n.into()]))
        });
        let [Change::Update { columns, .. }] = &entries[..] else { panic!("{entries:?}") };
        assert!(
            matches!(
                columns.get("top"),
                Some(ColumnChange::Apply { operation: SplitOperation::TOP_K_INSERT, .. })
            ),
            "{columns:?}"
        );
        let mut values = row.to_values();
        columns.apply_to(&mut values).expect("it fits");
        let stored =
            db.run(|tx| Ok(tx.get(&table, key)?.map(|row| row.to_values()))).expect("read").expect("there");
        assert_eq!(values[4], stored[4]);
        assert!(matches!(columns.apply_to(&mut values[..3]), Err(Error::WrongRow { .. })));
        let replaced = change(&|tx| {
            tx.delete(&table, key)?;
            tx.insert(&table, row!["abc", day, 2, "short", Value::Null])
        });
        assert!(matches!(&replaced[..], [Change::Insert { .. }]), "{replaced:?}");
        let gone = change(&|tx| {
            tx.update(&table, key, &[("n", 3.into())])?;
            tx.delete(&table, key).map(drop)
        });
        assert!(
            matches!(&gone[..], [Change::Delete { key: found }] if found[1] == Value::from("abc")),
            "{gone:?}"
        );
        // What leaves no trace is no change: the next one is behind it.
        db.run(|tx| {
            tx.insert(&table, row!["def", day, 2, "short", Value::Null])?;
            tx.delete(&table, key![day, "def"]).map(drop)
        })
        .expect("nothing");
        let failed = db.run(|tx| {
            tx.insert(&table, row!["ghi", day, 2, "short", Value::Null])?;
            Err::<(), _>(heddledb::fail("not now"))
        });
        assert!(failed.is_err());
        let last = change(&|tx| tx.insert(&table, row!["jkl", day, 2, "short", Value::Null]));
        assert_eq!(last.len(), 1, "{last:?}");
    });
}

#[test]
fn a_split_column_is_one_merged_change_for_each_row_and_epoch() {
    watched(|| {
        let phased = PhasedOptions::default().phase_milliseconds(2.0);
        let (db, _disk) = on_disk(small().protocol(phased));
        let definition = TableDefinition::new("counter")
            .column("id", DataType::Int64)
            .column("n", DataType::Int64)
            .not_null()
            .column("high", DataType::Int64)
            .not_null()
            .primary_key(["id"]);
        let table = db.create_table(definition).expect("a table");
        db.run(|tx| (0..2).try_for_each(|id| tx.insert(&table, row![id, 0, 0]))).expect("rows");
        for id in 0..2 {
            db.split(&table, id, "n", SplitOperation::ADD).expect("a label");
            db.split(&table, id, "high", SplitOperation::MAX).expect("a label");
        }
        let (mut copy, epoch) = Copy::of(&db, &table);
        let mut feed = db.watch(&table, epoch).expect("a feed");
        let (mut merged, mut sums, mut done) = (0, [0, 0], 0);
        // Until operations of several threads were merged to one change.
        while merged < 5 {
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for n in 0..40 {
                            db.run(|tx| {
                                tx.add(&table, key![n % 2], "n", 1)?;
                                tx.max(&table, key![n % 2], "high", n)
                            })
                            .expect("operations");
                        }
                    });
                }
            });
            done += 3 * 40;
            let end = now(&db);
            while !feed.has_given(end) {
                let Some(batch) = feed.try_next().expect("readable") else { continue };
                let mut with_operations = [0, 0];
                for change in &batch {
                    let Change::Update { key, columns } = change else { panic!("{change:?}") };
                    let id = int(&key[0]) as usize;
                    if let Some(ColumnChange::Apply { operation, operand }) = columns.get("n") {
                        with_operations[id] += 1;
                        assert_eq!(*operation, SplitOperation::ADD);
                        merged += usize::from(int(operand) > 1);
                    }
                }
                assert!(with_operations.iter().all(|&count| count <= 1), "one for each row: {batch:?}");
                copy.take(&batch);
                for (id, sum) in sums.iter_mut().enumerate() {
                    *sum = int(&copy.rows[&(id as i64)][1]);
                }
            }
            assert_eq!(sums[0] + sums[1], done, "nothing is missing, and nothing comes twice");
        }
        assert_eq!(copy, Copy::of(&db, &table).0);
        assert_eq!((int(&copy.rows[&0][2]), int(&copy.rows[&1][2])), (38, 39));
    });
}
