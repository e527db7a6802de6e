//! Unique indexes that a session adds: over the rows that there are, and over what it writes afterwards.

use heddledb::{DataType, Error, Session, Table, TableChange, Tx, ValueRef, key, row};

use super::{begun, filled, ids, ids_by_index};
use crate::support::tables::everywhere;

#[test]
fn rows_that_do_not_fit_fail_the_change_or_its_commit() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            db.run(|tx| tx.insert(&table, row![10, "null", ValueRef::Null])).expect("inserted");
            db.run(|tx| tx.insert(&table, row![11, "twice", 90])).expect("inserted");
            let mut session = begun(db);
            let unique = TableChange::new().add_unique_index("by_n", ["n"]);
            let refused = session.change_table("a", unique.clone());
            assert!(matches!(refused, Err(Error::NotUnique { .. })), "{refused:?}");
            let refused = session.change_table("a", TableChange::new().not_null("n"));
            assert!(matches!(refused, Err(Error::NullValue { .. })), "{refused:?}");
            // Its own writes count.
            session.run(|tx| tx.delete(&table, key![11])).expect("deleted");
            session.change_table("a", unique).expect("unique now");
            db.run(|tx| tx.insert(&table, row![12, "rival", 80])).expect("the index is not there yet");
            let refused = session.commit();
            assert!(matches!(refused, Err(Error::NotUnique { .. } | Error::Conflict)), "{refused:?}");
        },
        |db| {
            assert_eq!(ids(db, "a"), (0..13).collect::<Vec<_>>());
            assert!(ids_by_index(db, "a", "by_n", 90).is_err());
        },
    );
}

#[test]
fn a_unique_index_counts_what_the_transaction_writes_afterwards() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            let change = |session: &mut Session| {
                session.change_table("a", TableChange::new().add_unique_index("by_n", ["n"]))
            };
            let mut session = begun(db);
            let changed = change(&mut session).expect("changed");
            session.run(|tx| tx.insert(&changed, row![20, "twice", 90])).expect("the commit will tell");
            let refused = session.commit();
            assert!(matches!(refused, Err(Error::NotUnique { .. })), "{refused:?}");
            session.begin().expect("begun");
            let changed = change(&mut session).expect("changed");
            session
                .run(|tx| {
                    tx.update(&changed, key![1], &[("n", 20.into())])?;
                    tx.update(&changed, key![2], &[("n", 10.into())])?;
                    tx.add(&changed, key![3], "n", 5)
                })
                .expect("values are exchanged");
            session.commit().expect("committed");
            let refused = db.run(|tx| tx.insert(&table, row![30, "twice", 35]));
            assert!(matches!(refused, Err(Error::DuplicateKey { .. })), "{refused:?}");
        },
        |db| {
            for (n, id) in [(10, 2), (20, 1), (35, 3), (90, 9)] {
                assert_eq!(ids_by_index(db, "a", "by_n", n).expect("read"), [id]);
            }
            assert_eq!(ids_by_index(db, "a", "by_n", 30).expect("read"), []);
        },
    );
}

#[test]
fn rows_that_the_transaction_makes_unique_may_have_a_unique_index() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            let twice = |tx: &Tx<'_, '_>| {
                (0..10).try_for_each(|id| tx.insert(&table, row![100 + id, "twice", id * 10]))
            };
            db.run(twice).expect("inserted");
            let unique = TableChange::new().add_unique_index("by_n", ["n"]);
            let mut session = begun(db);
            let added = || TableChange::new().add_column("m", DataType::Int64, 7);
            let changed = session.change_table("a", added()).expect("changed");
            let remove = |tx: &Tx<'_, '_>, changed: &Table, nine: i64| {
                // By values, by operations, by deletion, and by insertion again.
                (0..3).try_for_each(|id| tx.update(changed, key![id], &[("n", (-1 - id).into())]))?;
                (3..6).try_for_each(|id| tx.add(changed, key![100 + id], "n", 1000))?;
                (6..nine).try_for_each(|id| tx.delete(changed, key![id]).map(drop))?;
                tx.delete(changed, key![107])?;
                tx.insert(changed, row![7, "again", 70, 8])
            };
            session.run(|tx| remove(tx, &changed, 9)).expect("written");
            let refused = session.change_table("a", unique.clone());
            assert!(matches!(refused, Err(Error::NotUnique { .. })), "{refused:?}");
            session.rollback().expect("open");
            session.begin().expect("begun");
            let changed = session.change_table("a", added()).expect("changed");
            session.run(|tx| remove(tx, &changed, 10)).expect("written");
            session.change_table("a", unique).expect("unique now");
            // Rows that are not the transaction's own may change meanwhile.
            db.run(|tx| tx.update(&table, key![108], &[("n", 555.into())])).expect("updated");
            db.run(|tx| tx.insert(&table, row![120, "new", 80])).expect("inserted");
            session.commit().expect("committed");
        },
        |db| {
            let rows = [(-1, 0), (-2, 1), (-3, 2), (0, 100), (10, 101), (20, 102), (30, 3), (40, 4), (50, 5)];
            let more =
                [(60, 106), (70, 7), (80, 120), (90, 109), (555, 108), (1030, 103), (1040, 104), (1050, 105)];
            for (n, id) in rows.into_iter().chain(more) {
                assert_eq!(ids_by_index(db, "a", "by_n", n).expect("read"), [id], "{n}");
            }
            db.check().expect("consistent");
        },
    );
}

#[test]
fn an_index_that_was_dropped_and_added_again_has_what_was_written_meanwhile() {
    everywhere(
        |db| {
            filled(db, "a");
            db.change_table("a", TableChange::new().add_unique_index("by_n", ["n"])).expect("changed");
            let mut session = begun(db);
            let changed = session.change_table("a", TableChange::new().drop_index("by_n")).expect("changed");
            session
                .run(|tx| {
                    tx.insert(&changed, row![50, "meanwhile", 500])?;
                    tx.update(&changed, key![3], &[("n", 33.into())])?;
                    tx.delete(&changed, key![4])
                })
                .expect("written");
            let change = TableChange::new().add_unique_index("by_n", ["n"]);
            session.change_table("a", change).expect("changed");
            session.commit().expect("committed");
        },
        |db| {
            for (n, ids) in [(500, &[50][..]), (33, &[3]), (30, &[]), (40, &[]), (50, &[5])] {
                assert_eq!(ids_by_index(db, "a", "by_n", n).expect("read"), ids);
            }
            db.check().expect("consistent");
        },
    );
}
