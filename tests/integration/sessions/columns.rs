//! Reads that name their columns: a session's commit compares the values of these, and of a row read as a whole its stamp.

use heddledb::{
    Column, DataType, Database, Durability, Error, Options, ProtocolKind, Range, Result, Session,
    SplitOperation, Table, TableDefinition, Value, key, row,
};

/// A table of sheets: a key, three numbers of which `c` may be NULL, a text and a float, with three rows.
pub struct Sheet {
    pub db: Database,
    pub table: Table,
    pub protocol: ProtocolKind,
}

impl Sheet {
    pub fn new(protocol: ProtocolKind) -> Sheet {
        let options = Options::default().protocol(protocol).durability(Durability::None).workers(2);
        let db = Database::in_memory_with(options).expect("options");
        let definition = TableDefinition::new("sheet").column("id", DataType::Int64);
        let definition = definition.column("a", DataType::Int64).column("b", DataType::Int64);
        let definition = definition.column("c", DataType::Int64).column("name", DataType::Text);
        let definition = definition.column("part", DataType::Float64).primary_key(["id"]);
        let table = db.create_table(definition).expect("a table");
        let insert = |id: i64| db.run(|tx| tx.insert(&table, row![id, 0, 0, 0, "sheet", 0.0]));
        (1..=3).for_each(|id| insert(id).expect("a row"));
        Sheet { db, table, protocol }
    }

    pub fn begin(&self) -> Session {
        let mut session = self.db.session().expect("a session");
        session.begin().expect("a transaction");
        session
    }

    fn columns(&self, names: &[&str]) -> Vec<Column> {
        names.iter().map(|name| self.table.column(name).expect("a column")).collect()
    }

    /// The values of some columns, as a session reads them.
    pub fn read(&self, session: &mut Session, id: i64, names: &[&str]) -> Result<Option<Vec<Value>>> {
        let columns = self.columns(names);
        session.run(|tx| {
            let found = tx.get_columns(&self.table, key![id], &columns)?;
            found.map(|row| names.iter().map(|name| Ok(row.get(*name)?.to_value())).collect()).transpose()
        })
    }

    pub fn set(&self, session: &mut Session, id: i64, name: &str, value: i64) -> Result<()> {
        session.run(|tx| tx.update(&self.table, key![id], &[(name, value.into())]))
    }

    /// Changes a column by a closure, beside all sessions.
    fn change(&self, id: i64, name: &str, value: impl Into<Value>) {
        let value = value.into();
        let changed = self.db.run(|tx| tx.update(&self.table, key![id], &[(name, (&value).into())]));
        changed.expect("a change");
    }

    pub fn row(&self, id: i64) -> Option<Vec<Value>> {
        let read = self.db.run(|tx| Ok(tx.get(&self.table, key![id])?.map(|row| row.to_values())));
        read.expect("a read")
    }

    /// The outcome of a session that has read some columns of row 1, after these changes, when it writes row 2 and commits.
    fn ends(&self, names: &[&str], changes: impl Fn(&Sheet)) -> Result<()> {
        let early = self.ends_at(names, false, &changes);
        let late = self.ends_at(names, true, &changes);
        assert_eq!(early, late, "{}: at the first write, and at the commit", self.protocol);
        early
    }

    /// `is_current`: it has written before, and reads what is there now instead of a snapshot.
    fn ends_at(&self, names: &[&str], is_current: bool, changes: &impl Fn(&Sheet)) -> Result<()> {
        self.db.run(|tx| tx.delete(&self.table, key![1]).map(drop)).expect("a delete");
        self.db.run(|tx| tx.insert(&self.table, row![1, 0, 0, 0, "sheet", 0.0])).expect("a row");
        let mut session = self.begin();
        if is_current {
            self.set(&mut session, 3, "a", 1).expect("a write");
        }
        self.read(&mut session, 1, names).expect("a read").expect("a row");
        changes(self);
        self.set(&mut session, 2, "a", 1)?;
        session.commit()
    }
}

pub fn under_every_protocol(test: impl Fn(&Sheet)) {
    ProtocolKind::ALL.iter().for_each(|&protocol| test(&Sheet::new(protocol)));
}

#[test]
fn a_change_of_a_column_that_was_not_used_is_no_conflict() {
    under_every_protocol(|sheet| {
        assert_eq!(sheet.ends(&["a", "name"], |sheet| sheet.change(1, "b", 7)), Ok(()));
        assert_eq!(sheet.row(1).expect("a row")[2], Value::Int(7));
        assert_eq!(sheet.ends(&[], |sheet| sheet.change(1, "a", 7)), Ok(()), "it has used the key");
        let add = |sheet: &Sheet| sheet.db.run(|tx| tx.add(&sheet.table, key![1], "c", 5)).expect("added");
        assert_eq!(sheet.ends(&["a"], add), Ok(()), "{}", sheet.protocol);
    });
}

#[test]
fn a_change_of_a_column_that_was_used_is_a_conflict() {
    under_every_protocol(|sheet| {
        let conflict = Err(Error::Conflict);
        assert_eq!(sheet.ends(&["a", "b"], |sheet| sheet.change(1, "b", 7)), conflict, "{}", sheet.protocol);
        assert_eq!(sheet.ends(&["name"], |sheet| sheet.change(1, "name", "book")), conflict);
        assert_eq!(sheet.ends(&["name"], |sheet| sheet.change(1, "name", "a longer name")), conflict);
        assert_eq!(sheet.ends(&["c"], |sheet| sheet.change(1, "c", Value::Null)), conflict);
        assert_eq!(sheet.ends(&["part"], |sheet| sheet.change(1, "part", -0.0)), conflict, "it prints as -0");
        assert_eq!(sheet.ends(&["b"], |sheet| (0..2).for_each(|to| sheet.change(1, "b", to + 7))), conflict);
        let add = |sheet: &Sheet| sheet.db.run(|tx| tx.add(&sheet.table, key![1], "c", 5)).expect("added");
        assert_eq!(sheet.ends(&["c"], add), conflict, "{}", sheet.protocol);
    });
}

#[test]
fn a_value_that_has_come_back_is_no_conflict() {
    under_every_protocol(|sheet| {
        let there_and_back = |sheet: &Sheet| [7, 0].into_iter().for_each(|to| sheet.change(1, "a", to));
        assert_eq!(sheet.ends(&["a"], there_and_back), Ok(()), "{}", sheet.protocol);
        let renamed =
            |sheet: &Sheet| ["a longer name", "sheet"].iter().for_each(|&to| sheet.change(1, "name", to));
        assert_eq!(sheet.ends(&["name", "c"], renamed), Ok(()));
    });
}

#[test]
fn a_row_that_was_deleted_is_a_conflict_and_one_that_is_there_again_is_none() {
    let delete = |sheet: &Sheet| {
        sheet.db.run(|tx| tx.delete(&sheet.table, key![1]).map(drop)).expect("a delete");
    };
    let insert = |sheet: &Sheet, a: i64| {
        sheet.db.run(|tx| tx.insert(&sheet.table, row![1, a, 9, 9, "another", 9.0])).expect("a row");
    };
    under_every_protocol(|sheet| {
        assert_eq!(sheet.ends(&["a"], delete), Err(Error::Conflict), "{}", sheet.protocol);
        let replaced = |sheet: &Sheet, a: i64| {
            delete(sheet);
            insert(sheet, a);
        };
        assert_eq!(sheet.ends(&["a"], |sheet| replaced(sheet, 0)), Ok(()), "{}", sheet.protocol);
        assert_eq!(sheet.ends(&["a"], |sheet| replaced(sheet, 1)), Err(Error::Conflict));
        assert_eq!(sheet.ends(&["a", "b"], |sheet| replaced(sheet, 0)), Err(Error::Conflict));
    });
}

#[test]
fn columns_of_several_reads_count_together() {
    under_every_protocol(|sheet| {
        for (changed, is_used) in [("a", true), ("b", true), ("c", false), ("name", true)] {
            for is_current in [false, true] {
                let mut session = sheet.begin();
                if is_current {
                    sheet.set(&mut session, 3, "a", 1).expect("a write");
                }
                sheet.read(&mut session, 1, &["a"]).expect("a read");
                sheet.read(&mut session, 1, &["b"]).expect("a read");
                // Between two reads of a row, too.
                let c = sheet.row(1).expect("a row")[3].clone();
                sheet.change(1, "c", Value::Int(if c == Value::Int(0) { 1 } else { 0 }));
                sheet.read(&mut session, 1, &["name", "a"]).expect("columns that have not changed");
                let value = if changed == "name" { Value::Text("other".into()) } else { Value::Int(77) };
                sheet.change(1, changed, value);
                let ended = sheet.set(&mut session, 2, "a", 5).and_then(|()| session.commit());
                assert_eq!(ended.is_err(), is_used, "{}: {changed}, {is_current}", sheet.protocol);
                sheet.change(1, "name", "sheet");
                sheet.change(1, "a", 0);
                sheet.change(1, "b", 0);
            }
        }
    });
}

#[test]
fn a_later_read_of_more_columns_is_of_one_state_with_the_earlier_one() {
    under_every_protocol(|sheet| {
        let mut session = sheet.begin();
        sheet.set(&mut session, 3, "a", 1).expect("a write");
        assert_eq!(sheet.read(&mut session, 1, &["a"]), Ok(Some(vec![Value::Int(0)])));
        sheet.change(1, "b", 1);
        assert_eq!(sheet.read(&mut session, 1, &["b"]), Ok(Some(vec![Value::Int(1)])));
        sheet
            .db
            .run(|tx| tx.update(&sheet.table, key![1], &[("a", 2.into()), ("c", 2.into())]))
            .expect("both");
        assert_eq!(sheet.read(&mut session, 1, &["c"]), Err(Error::Conflict), "{}", sheet.protocol);
    });
}

#[test]
fn a_row_that_was_read_as_a_whole_conflicts_with_any_change() {
    under_every_protocol(|sheet| {
        for is_whole_first in [false, true] {
            let mut session = sheet.begin();
            let whole = |session: &mut Session| session.run(|tx| tx.get(&sheet.table, key![1]).map(drop));
            if is_whole_first {
                whole(&mut session).expect("a read");
            }
            sheet.read(&mut session, 1, &["a"]).expect("a read");
            if !is_whole_first {
                whole(&mut session).expect("a read");
            }
            sheet.change(1, "b", i64::from(is_whole_first) + 1);
            let ended = sheet.set(&mut session, 2, "a", 5).and_then(|()| session.commit());
            assert_eq!(ended, Err(Error::Conflict), "{}", sheet.protocol);
        }
    });
}

/// Each of two sessions reads a column and writes the one that the other has read.
#[test]
fn write_skew_between_two_columns_of_a_row_is_a_conflict() {
    under_every_protocol(|sheet| {
        for is_current in [false, true] {
            let [mut first, mut second] = [sheet.begin(), sheet.begin()];
            if is_current {
                sheet.set(&mut first, 2, "c", 1).expect("a write");
                sheet.set(&mut second, 3, "c", 1).expect("a write");
            }
            sheet.read(&mut first, 1, &["a"]).expect("a read");
            sheet.read(&mut second, 1, &["b"]).expect("a read");
            let value = i64::from(is_current) + 1;
            sheet.set(&mut first, 1, "b", value).expect("it has not read this column");
            sheet.set(&mut second, 1, "a", value).expect("it has not read this column");
            let ended = [first.commit(), second.commit()];
            assert_eq!(ended, [Ok(()), Err(Error::Conflict)], "{}", sheet.protocol);
        }
    });
}

#[test]
fn sessions_that_write_other_columns_than_they_read_neither_wait_nor_fail() {
    under_every_protocol(|sheet| {
        let mut sessions = [sheet.begin(), sheet.begin(), sheet.begin()];
        for (session, column) in sessions.iter_mut().zip(["a", "b", "c"]) {
            session.run(|tx| tx.add(&sheet.table, key![1], column, 5)).expect("an addition");
            sheet.read(session, 1, &["name"]).expect("a read of a row that it has written");
        }
        for session in &mut sessions {
            session.commit().expect("no conflict");
        }
        let numbers = [5, 5, 5].map(Value::Int);
        assert_eq!(sheet.row(1).expect("a row")[1..4], numbers, "{}: all are there", sheet.protocol);
    });
}

#[test]
fn a_session_sees_its_own_writes_to_columns_that_others_have_left_alone() {
    under_every_protocol(|sheet| {
        let mut session = sheet.begin();
        sheet.set(&mut session, 1, "a", 5).expect("a write");
        session.run(|tx| tx.add(&sheet.table, key![1], "b", 5)).expect("an addition");
        let own = vec![Value::Int(5), Value::Int(5)];
        assert_eq!(sheet.read(&mut session, 1, &["a", "b"]), Ok(Some(own.clone())));
        sheet.change(1, "c", 3);
        assert_eq!(sheet.read(&mut session, 1, &["a", "b"]), Ok(Some(own)), "{}", sheet.protocol);
        session.commit().expect("no conflict");
        let row = sheet.row(1).expect("a row");
        assert_eq!(row[1..4], [5, 5, 3].map(Value::Int), "{}: the columns are merged", sheet.protocol);
        let mut session = sheet.begin();
        session.run(|tx| tx.add(&sheet.table, key![1], "b", 5)).expect("an addition");
        sheet.read(&mut session, 1, &["b"]).expect("a read");
        sheet.change(1, "b", 100);
        assert_eq!(session.commit(), Err(Error::Conflict), "{}: it has seen 10", sheet.protocol);
    });
}

#[test]
fn rows_of_a_scan_count_by_the_columns_that_it_uses() {
    under_every_protocol(|sheet| {
        let columns = sheet.columns(&["a"]);
        for (changed, is_conflict) in [("b", false), ("a", true)] {
            let mut session = sheet.begin();
            sheet.set(&mut session, 3, "c", 1).expect("a write");
            let sum = session.run(|tx| {
                let scan = tx.scan(&sheet.table, Range::all())?.of_columns(&columns)?;
                scan.map(|row| row?.int("a")).sum::<Result<i64>>()
            });
            assert_eq!(sum, Ok(0));
            sheet.change(2, changed, 4);
            let ended = session.commit();
            assert_eq!(ended.is_err(), is_conflict, "{}: {changed}: {ended:?}", sheet.protocol);
        }
        let mut session = sheet.begin();
        sheet.set(&mut session, 3, "c", 1).expect("a write");
        let count = session.run(|tx| Ok(tx.scan(&sheet.table, Range::all())?.of_columns(&[])?.count()));
        assert_eq!(count, Ok(3));
        sheet.db.run(|tx| tx.insert(&sheet.table, row![9, 0, 0, 0, "new", 0.0])).expect("a row");
        assert_eq!(session.commit(), Err(Error::Conflict), "{}: a phantom", sheet.protocol);
    });
}

/// Which rows an index finds depends on the indexed column, whether a read uses it or not.
#[test]
fn rows_that_an_index_has_found_count_by_its_records_too() {
    super::rig::under_every_protocol(|rig| {
        let columns = [rig.items.column("id").expect("a column")];
        for is_current in [false, true] {
            for (changed, to, is_conflict) in [("value", 77, false), ("tag", 5, true), ("code", 55, false)] {
                let mut session = rig.begin();
                if is_current {
                    rig.write(&mut session, 2, 21).expect("a write");
                }
                let found = session.run(|tx| {
                    let range = Range::prefix(key![1]);
                    let scan = tx.scan_index(&rig.items, "tag", range)?.of_columns(&columns)?;
                    scan.map(|row| row?.int("id")).collect::<Result<Vec<_>>>()
                });
                assert_eq!(found, Ok(vec![1, 3]));
                let set = |to: i64| {
                    let update =
                        |to: i64| rig.db.run(|tx| tx.update(&rig.items, key![3], &[(changed, to.into())]));
                    update(to).expect("a change");
                };
                set(to);
                let ended = rig.write(&mut session, 4, 41).and_then(|()| session.commit());
                assert_eq!(
                    ended.is_err(),
                    is_conflict,
                    "{}: {changed}, {is_current}: {ended:?}",
                    rig.protocol
                );
                set(if changed == "tag" { 1 } else { 3 });
            }
        }
    });
}

#[test]
fn values_that_are_too_long_count_by_their_rows_stamp() {
    under_every_protocol(|sheet| {
        for (length, is_conflict) in [(3_000, false), (5_000, true)] {
            sheet.change(1, "name", "n".repeat(length));
            let mut session = sheet.begin();
            sheet.read(&mut session, 1, &["name"]).expect("a read");
            sheet.change(1, "b", length as i64);
            let ended = sheet.set(&mut session, 2, "a", 5).and_then(|()| session.commit());
            assert_eq!(ended.is_err(), is_conflict, "{}: {length}", sheet.protocol);
        }
    });
}

#[test]
fn of_very_many_rows_the_later_ones_count_by_their_stamps() {
    let sheet = Sheet::new(ProtocolKind::Optimistic);
    let insert = |id: i64| sheet.db.run(|tx| tx.insert(&sheet.table, row![id, 0, 0, 0, "sheet", 0.0]));
    (10..2_000).for_each(|id| insert(id).expect("a row"));
    for (changed, is_conflict) in [(20, false), (1_900, true)] {
        let mut session = sheet.begin();
        for id in 10..2_000 {
            sheet.read(&mut session, id, &["a"]).expect("a read");
        }
        sheet.change(changed, "b", changed);
        let ended = sheet.set(&mut session, 2, "a", 5).and_then(|()| session.commit());
        assert_eq!(ended.is_err(), is_conflict, "{changed}");
        let mut session = sheet.begin();
        for id in 10..2_000 {
            sheet.read(&mut session, id, &["a"]).expect("a read");
        }
        sheet.change(changed, "a", changed);
        let ended = sheet.set(&mut session, 2, "a", 5).and_then(|()| session.commit());
        assert_eq!(ended, Err(Error::Conflict), "{changed}");
    }
}

#[test]
fn columns_beside_a_split_one_are_compared_in_every_phase() {
    under_every_protocol(|sheet| {
        sheet.db.split(&sheet.table, key![1], "b", SplitOperation::ADD).expect("a label");
        let add = || sheet.db.run(|tx| tx.add(&sheet.table, key![1], "b", 1)).expect("an addition");
        for round in 0..60 {
            let mut session = sheet.begin();
            if round % 2 == 0 {
                sheet.set(&mut session, 3, "a", round).expect("a write");
            }
            sheet.read(&mut session, 1, &["a", "name"]).expect("a read");
            (0..20).for_each(|_| add());
            if round % 3 == 0 {
                sheet.change(1, "a", round + 1);
            }
            let ended = sheet.set(&mut session, 2, "a", round).and_then(|()| session.commit());
            assert_eq!(ended.is_err(), round % 3 == 0, "{}: {round}: {ended:?}", sheet.protocol);
            let mut session = sheet.begin();
            let seen = sheet.read(&mut session, 1, &["b"]).expect("a read").expect("a row");
            assert_eq!(seen, [Value::Int((round + 1) * 20)], "{}", sheet.protocol);
            drop(session);
        }
        let mut session = sheet.begin();
        sheet.read(&mut session, 1, &["b"]).expect("a read");
        add();
        let ended = sheet.set(&mut session, 2, "a", 5).and_then(|()| session.commit());
        assert_eq!(ended, Err(Error::Conflict), "{}", sheet.protocol);
    });
}

#[test]
fn a_session_that_only_reads_sees_its_snapshot_of_the_columns() {
    under_every_protocol(|sheet| {
        let mut session = sheet.begin();
        assert_eq!(sheet.read(&mut session, 1, &["a"]), Ok(Some(vec![Value::Int(0)])));
        sheet.change(1, "a", 9);
        sheet.change(1, "b", 9);
        let both = vec![Value::Int(0), Value::Int(0)];
        assert_eq!(sheet.read(&mut session, 1, &["b", "a"]), Ok(Some(both)), "{}", sheet.protocol);
        session.commit().expect("it has only read");
        let columns = sheet.columns(&["a"]);
        let read = sheet
            .db
            .run(|tx| tx.get_columns(&sheet.table, key![1], &columns)?.map(|row| row.int("a")).transpose());
        assert_eq!(read, Ok(Some(9)), "{}: outside of sessions, too", sheet.protocol);
    });
}
