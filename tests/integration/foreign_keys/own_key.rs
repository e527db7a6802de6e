//! Actions on columns of the referring table's own primary key: its rows get other keys, and what refers to them follows.

use std::thread;

use heddledb::{
    Action, DataType, Database, Error, ForeignKey, ProcedureDefinition, Range, ReferentialAction, Table,
    TableDefinition, args, key, row,
};

use crate::foreign_keys::rig::{every_protocol, parents, still_referenced};

struct Chain {
    db: Database,
    parents: Table,
    lines: Table,
    notes: Table,
}

/// Lines, whose key begins with the code of their parent.
fn lines(action: ReferentialAction) -> TableDefinition {
    TableDefinition::new("line")
        .column("parent", DataType::Int64)
        .default(90)
        .column("line", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .primary_key(["parent", "line"])
        .index("by_n", ["n"])
        .foreign_key(
            ForeignKey::new("line_parent", ["parent"], "parent")
                .to_columns(["code"])
                .on_update(action)
                .on_delete(ReferentialAction::Cascade),
        )
}

/// Notes on lines.
fn notes(action: ReferentialAction, is_deferred: bool) -> TableDefinition {
    let key = ForeignKey::new("note_line", ["parent", "line"], "line")
        .on_update(action)
        .on_delete(ReferentialAction::Cascade);
    TableDefinition::new("note")
        .column("id", DataType::Int64)
        .column("parent", DataType::Int64)
        .column("line", DataType::Int64)
        .primary_key(["id"])
        .foreign_key(if is_deferred { key.deferred() } else { key })
}

/// Runs a test under every protocol, with parents 1, 2 and 9 of codes 10, 20 and 90, lines 1 and 2 of code 10, and a note on each.
fn everywhere(actions: (ReferentialAction, ReferentialAction), is_deferred: bool, test: impl Fn(&Chain)) {
    for options in every_protocol() {
        let db = Database::in_memory_with(options).expect("options");
        let parents = db.create_table(parents()).expect("parents");
        let lines = db.create_table(lines(actions.0)).expect("lines");
        let notes = db.create_table(notes(actions.1, is_deferred)).expect("notes");
        db.run(|tx| {
            [1, 2, 9].iter().try_for_each(|&id| tx.insert(&parents, row![id, id * 10, 0]))?;
            [1, 2].iter().try_for_each(|&line| tx.insert(&lines, row![10, line, line]))?;
            [1, 2].iter().try_for_each(|&line| tx.insert(&notes, row![line, 10, line]))
        })
        .expect("rows");
        let chain = Chain { db, parents, lines, notes };
        test(&chain);
        chain.check();
    }
}

impl Chain {
    fn recode(&self, id: i64, code: i64) -> heddledb::Result<()> {
        self.db.run(|tx| tx.update(&self.parents, key![id], &[("code", code.into())]))
    }

    fn rows(&self, table: &Table) -> Vec<Vec<i64>> {
        let row = |row: heddledb::Result<heddledb::OwnedRow>| {
            let values = row?.row().to_values().into_iter();
            Ok(values.map(|value| if let heddledb::Value::Int(int) = value { int } else { -1 }).collect())
        };
        self.db.read(|snapshot| snapshot.scan(table, Range::all())?.map(row).collect()).expect("readable")
    }

    /// That each row has its referenced one, and every index is right.
    fn check(&self) {
        let codes: Vec<i64> = self.rows(&self.parents).iter().map(|row| row[1]).collect();
        let lines = self.rows(&self.lines);
        assert!(lines.iter().all(|line| codes.contains(&line[0])), "{lines:?} of {codes:?}");
        for note in self.rows(&self.notes).iter().filter(|note| note[1] >= 0) {
            assert!(lines.iter().any(|line| line[..2] == note[1..]), "{note:?} of {lines:?}");
        }
        self.db.check().expect("consistent");
    }
}

#[test]
fn rows_move_to_other_keys_and_those_that_refer_to_them_follow() {
    use ReferentialAction::{Cascade, SetNull};
    for is_deferred in [false, true] {
        for action in [Cascade, SetNull] {
            everywhere((Cascade, action), is_deferred, |chain| {
                chain.recode(1, 15).expect("its lines follow");
                assert_eq!(chain.rows(&chain.lines), [[15, 1, 1], [15, 2, 2]]);
                let note = |id: i64| if action == Cascade { [id, 15, id] } else { [id, -1, -1] };
                assert_eq!(chain.rows(&chain.notes), [note(1), note(2)]);
                // Back, and by an operation.
                chain.db.run(|tx| tx.add(&chain.parents, key![1], "code", -5)).expect("back");
                assert_eq!(chain.rows(&chain.lines), [[10, 1, 1], [10, 2, 2]]);
                let found = chain.db.run(|tx| {
                    tx.scan_index(&chain.lines, "by_n", Range::prefix(key![2]))?
                        .map(|row| row?.int("parent"))
                        .collect::<heddledb::Result<Vec<_>>>()
                });
                assert_eq!(found, Ok(vec![10]));
            });
        }
    }
}

#[test]
fn rows_get_defaults_and_a_key_holds_no_null() {
    use ReferentialAction::{Cascade, SetDefault, SetNull};
    everywhere((SetDefault, Cascade), false, |chain| {
        chain.recode(1, 15).expect("its lines get the default");
        assert_eq!(chain.rows(&chain.lines), [[90, 1, 1], [90, 2, 2]]);
        assert_eq!(chain.rows(&chain.notes), [[1, 90, 1], [2, 90, 2]]);
    });
    everywhere((SetNull, Cascade), false, |chain| {
        let refused = chain.recode(1, 15);
        assert!(matches!(refused, Err(Error::NullValue { .. })), "{refused:?}");
        assert_eq!(chain.rows(&chain.parents)[0], [1, 10, 0], "nothing of it stays");
    });
}

#[test]
fn what_is_refused_leaves_everything_as_it_was() {
    use ReferentialAction::{Cascade, NoAction, Restrict, SetDefault};
    for action in [Restrict, NoAction] {
        for is_deferred in [false, true] {
            everywhere((Cascade, action), is_deferred, |chain| {
                still_referenced(chain.recode(1, 15));
                assert_eq!(chain.rows(&chain.lines), [[10, 1, 1], [10, 2, 2]]);
            });
        }
    }
    // A line is in the way.
    everywhere((SetDefault, Cascade), false, |chain| {
        chain.db.run(|tx| tx.insert(&chain.lines, row![90, 2, 7])).expect("another line");
        let refused = chain.recode(1, 15);
        assert!(matches!(refused, Err(Error::DuplicateKey { .. })), "{refused:?}");
        assert_eq!(chain.rows(&chain.lines), [[10, 1, 1], [10, 2, 2], [90, 2, 7]]);
    });
}

#[test]
fn a_row_that_two_actions_move_is_followed_once_to_where_it_is() {
    for options in every_protocol() {
        let db = Database::in_memory_with(options).expect("options");
        let parents = db.create_table(parents()).expect("parents");
        let by = |name: &str, column: &'static str| {
            ForeignKey::new(name, [column], "parent")
                .to_columns(["code"])
                .on_update(ReferentialAction::Cascade)
        };
        let pair = TableDefinition::new("pair")
            .column("a", DataType::Int64)
            .column("b", DataType::Int64)
            .primary_key(["a", "b"])
            .foreign_key(by("pair_a", "a"))
            .foreign_key(by("pair_b", "b"));
        let pairs = db.create_table(pair).expect("pairs");
        let note = TableDefinition::new("note")
            .column("id", DataType::Int64)
            .column("a", DataType::Int64)
            .column("b", DataType::Int64)
            .primary_key(["id"])
            .foreign_key(
                ForeignKey::new("note_pair", ["a", "b"], "pair")
                    .on_update(ReferentialAction::Cascade)
                    .on_delete(ReferentialAction::Cascade),
            );
        let notes = db.create_table(note).expect("notes");
        db.run(|tx| {
            tx.insert(&parents, row![1, 10, 0])?;
            tx.insert(&pairs, row![10, 10])?;
            tx.insert(&notes, row![1, 10, 10])
        })
        .expect("rows");
        db.run(|tx| tx.update(&parents, key![1], &[("code", 15.into())])).expect("both columns follow");
        assert_eq!(db.run(|tx| tx.exists(&pairs, key![15, 15])), Ok(true));
        let of_note =
            db.run(|tx| tx.get(&notes, key![1])?.map(|row| Ok((row.int("a")?, row.int("b")?))).transpose());
        assert_eq!(of_note, Ok(Some((15, 15))));
        db.check().expect("consistent");
    }
}

#[test]
fn sessions_and_procedures_move_rows_too() {
    use ReferentialAction::Cascade;
    everywhere((Cascade, Cascade), false, |chain| {
        let mut session = chain.db.session().expect("a session");
        session.begin().expect("begun");
        session
            .run(|tx| tx.update(&chain.parents, key![1], &[("code", 15.into())]))
            .expect("its lines follow");
        assert!(session.run(|tx| tx.exists(&chain.lines, key![15, 1])).expect("its own writes are seen"));
        session.run(|tx| tx.insert(&chain.lines, row![15, 3, 3])).expect("another line");
        assert_eq!(chain.rows(&chain.lines), [[10, 1, 1], [10, 2, 2]], "not committed");
        session.commit().expect("committed");
        assert_eq!(chain.rows(&chain.notes), [[1, 15, 1], [2, 15, 2]]);
        let recode = Action::write(&chain.parents)
            .key(|args, key| key.push(args.int(0)?))
            .body(|action| action.update(&[("code", action.args().int(1)?.into())]));
        let recode = ProcedureDefinition::new("recode")
            .parameter("id", DataType::Int64)
            .parameter("code", DataType::Int64)
            .phase([recode]);
        let recode = chain.db.register(recode).expect("a procedure");
        chain.db.call(&recode, args![1, 25]).expect("its lines follow");
        assert_eq!(chain.rows(&chain.lines), [[25, 1, 1], [25, 2, 2], [25, 3, 3]]);
    });
}

#[test]
fn threads_move_insert_and_delete_lines_and_none_loses_its_parent() {
    use ReferentialAction::Cascade;
    everywhere((Cascade, Cascade), false, |chain| {
        thread::scope(|scope| {
            for number in 0..4_i64 {
                scope.spawn(move || {
                    for round in 0..40_i64 {
                        let id = [1, 2][(round as usize + number as usize) % 2];
                        let code = 100 + number * 1_000 + round;
                        let done = match number {
                            0 | 1 => chain.recode(id, code),
                            2 => chain.db.run(|tx| {
                                let Some(parent) = tx.get(&chain.parents, key![id])? else { return Ok(()) };
                                let code = parent.int("code")?;
                                tx.insert(&chain.lines, row![code, 10 + round, round])?;
                                tx.insert(&chain.notes, row![10 + round, code, 10 + round])
                            }),
                            _ => chain.db.run(|tx| {
                                let first =
                                    tx.scan(&chain.lines, Range::all().limit(1))?.next().transpose()?;
                                let Some(line) = first else { return Ok(()) };
                                let key = key![line.int("parent")?, line.int("line")?];
                                tx.delete(&chain.lines, key).map(|_| ())
                            }),
                        };
                        done.expect("no rule is violated");
                    }
                });
            }
        });
        let (lines, notes) = (chain.rows(&chain.lines).len(), chain.rows(&chain.notes).len());
        assert_eq!(lines, notes, "each line has its note");
    });
}
