//! Identity columns: each value once, whatever inserts it, under every protocol, across schema changes and crashes.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Durability, Error, Identity, Options, ProcedureDefinition, ProtocolKind,
    Range, Table, TableChange, TableDefinition, args, key, row,
};

const NONE: Option<i64> = None;

fn definition(kind: Identity) -> TableDefinition {
    TableDefinition::new("order")
        .column("id", DataType::Int64)
        .identity(kind)
        .column("customer", DataType::Text)
        .primary_key(["id"])
}

fn under_every_protocol(test: impl Fn(&Database, ProtocolKind)) {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().protocol(protocol).durability(Durability::None).workers(2);
        test(&Database::in_memory_with(options).expect("options"), protocol);
    }
}

fn on(disk: &SimulatedDisk, protocol: ProtocolKind) -> Database {
    let options = Options::default().log(|log| log.buffer_bytes(1 << 18).segment_bytes(1 << 20)).workers(2);
    Database::open("/db", options.protocol(protocol).disk(Arc::new(disk.clone()))).expect("a database")
}

fn ids(db: &Database, table: &Table) -> Vec<i64> {
    db.read(|snapshot| snapshot.scan(table, Range::all())?.map(|row| row?.row().int("id")).collect())
        .expect("readable")
}

#[test]
fn the_sequence_gives_what_the_insert_does_not() {
    under_every_protocol(|db, protocol| {
        let orders = db.create_table(definition(Identity::ByDefault)).expect("a table");
        db.run(|tx| tx.insert(&orders, row![NONE, "a"])).expect("drawn");
        db.run(|tx| tx.insert_columns(&orders, &[("customer", "b".into())])).expect("drawn");
        assert_eq!(db.run(|tx| tx.insert_new(&orders, row![77, "c"])), Ok(3), "{protocol}");
        db.run(|tx| tx.insert(&orders, row![50, "given"])).expect("by default");
        assert_eq!(db.run(|tx| tx.insert_new(&orders, row![NONE, "d"])), Ok(4));
        assert_eq!(ids(db, &orders), [1, 2, 3, 4, 50]);
        db.identity(&orders).expect("its sequence").set(50).expect("set");
        let twice = db.run(|tx| tx.insert_new(&orders, row![NONE, "e"]));
        assert!(matches!(twice, Err(Error::DuplicateKey { .. })), "{twice:?}");
        assert_eq!(db.run(|tx| tx.insert_new(&orders, row![NONE, "e"])), Ok(51));
        assert_eq!(db.sequences(), Ok(Vec::new()), "it is the table's");
    });
}

#[test]
fn a_column_that_is_always_given_takes_no_other_value() {
    under_every_protocol(|db, protocol| {
        let number = TableDefinition::new("ticket")
            .column("code", DataType::Text)
            .column("id", DataType::Int32)
            .identity(Identity::Always)
            .column("n", DataType::Int64)
            .primary_key(["code"]);
        let tickets = db.create_table(number).expect("a table");
        assert_eq!(db.run(|tx| tx.insert_new(&tickets, row!["a", 9, 0])), Ok(1), "{protocol}");
        let refused = [
            db.run(|tx| tx.insert(&tickets, row!["b", 7, 0])),
            db.run(|tx| tx.update(&tickets, key!["a"], &[("id", 7.into())])),
            db.run(|tx| tx.add(&tickets, key!["a"], "id", 1)),
        ];
        for refused in refused {
            let Err(error @ Error::GeneratedAlways { .. }) = refused else {
                panic!("{protocol}: {refused:?}")
            };
            assert_eq!(error.sqlstate(), "428C9");
        }
        db.run(|tx| tx.insert_overriding(&tickets, row!["b", 7, 0])).expect("a copy");
        db.run(|tx| tx.update(&tickets, key!["b"], &[("n", 1.into())])).expect("another column");
        assert_eq!(ids(db, &tickets), [1, 7]);
        db.identity(&tickets).expect("its sequence").set(i64::from(i32::MAX)).expect("the last one");
        assert_eq!(db.run(|tx| tx.insert_new(&tickets, row!["c", NONE, 0])), Ok(i64::from(i32::MAX)));
        let exhausted = db.run(|tx| tx.insert_new(&tickets, row!["d", NONE, 0]));
        assert!(matches!(exhausted, Err(Error::SequenceExhausted { .. })), "{exhausted:?}");
    });
}

#[test]
fn threads_closures_sessions_and_procedures_never_share_a_value() {
    const EACH: usize = 150;
    under_every_protocol(|db, protocol| {
        let orders = db.create_table(definition(Identity::ByDefault)).expect("a table");
        let (of_whole, of_key) = (orders.clone(), orders.clone());
        // The key is not known before: the action is declared on the whole table.
        let whole = Action::write(&orders).body(move |action| {
            let id = action.tx().insert_new(&of_whole, row![NONE, "procedure"])?;
            action.return_values((id,));
            Ok(())
        });
        let whole = db.register(ProcedureDefinition::new("whole").phase([whole])).expect("a procedure");
        // Or it is drawn in an earlier phase.
        let numbers = db.identity(&orders).expect("its sequence");
        let draw = Action::read(&orders).key(|_, key| key.push(0)).body(move |action| {
            let id = numbers.next()?;
            action.set_value(0, id);
            action.return_values((id,));
            Ok(())
        });
        let put = Action::write(&of_key)
            .key_from(|_, values, key| key.push(values.int(0)?))
            .body(|action| action.insert(row![action.values().int(0)?, "procedure"]));
        let led =
            db.register(ProcedureDefinition::new("led").phase([draw]).phase([put])).expect("a procedure");
        let given: Vec<i64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|number| {
                    let (whole, led, orders) = (&whole, &led, &orders);
                    scope.spawn(move || {
                        let mut session = db.session().expect("a session");
                        let mut insert = |round: usize| match number {
                            0 => db.run(|tx| tx.insert_new(orders, row![NONE, "closure"])),
                            1 => {
                                session.begin()?;
                                let id = session.run(|tx| tx.insert_new(orders, row![NONE, "session"]))?;
                                session.commit().map(|()| id)
                            }
                            _ => {
                                let procedure = if round.is_multiple_of(2) { whole } else { led };
                                db.call(procedure, args![])?.rows_as::<(i64,)>().map(|rows| rows[0].0)
                            }
                        };
                        (0..EACH).map(|round| insert(round).expect("inserted")).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        let distinct: HashSet<i64> = given.iter().copied().collect();
        assert_eq!(distinct.len(), 4 * EACH, "{protocol}: a value was given twice");
        assert_eq!(ids(db, &orders).into_iter().collect::<HashSet<_>>(), distinct, "{protocol}");
    });
}

#[test]
fn many_rows_of_one_transaction_are_numbered() {
    under_every_protocol(|db, protocol| {
        let orders = db.create_table(definition(Identity::Always)).expect("a table");
        db.run(|tx| (0..500).try_for_each(|_| tx.insert(&orders, row![NONE, "x"]))).expect("drawn");
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        for _ in 0..50 {
            session.run(|tx| (0..20).try_for_each(|_| tx.insert(&orders, row![NONE, "y"]))).expect("drawn");
        }
        session.commit().expect("committed");
        assert_eq!(ids(db, &orders).len(), 1_500, "{protocol}");
    });
}

#[test]
fn schema_changes_keep_the_sequence_and_dropping_the_column_drops_it() {
    under_every_protocol(|db, protocol| {
        let orders = db.create_table(definition(Identity::Always)).expect("a table");
        // A transaction right behind a schema change may be executed twice, and then leaves a gap.
        let last = Cell::new(0);
        let insert = || {
            let values = vec![heddledb::ValueRef::Null; orders.definition().columns().len()];
            let drawn = db.run(|tx| tx.insert_new(&orders, &values)).expect("inserted");
            assert!((1..=2).contains(&(drawn - last.get())), "{protocol}: {drawn} behind {}", last.get());
            last.set(drawn);
        };
        insert();
        db.change_table("order", TableChange::new().add_column("note", DataType::Text, "?"))
            .expect("rebuilt");
        insert();
        db.change_table("order", TableChange::new().rename("sale").rename_column("customer", "client"))
            .expect("renamed");
        insert();
        db.truncate(&["sale"]).expect("emptied");
        insert();
        db.change_table("sale", TableChange::new().identity("id", Identity::ByDefault))
            .expect("another kind");
        db.run(|tx| tx.insert(&orders, row![9, None::<&str>, None::<&str>])).expect("by default");
        insert();
        db.change_table("sale", TableChange::new().drop_identity("id")).expect("dropped");
        assert!(matches!(db.identity(&orders), Err(Error::InvalidDefinition { .. })));
        assert!(db.run(|tx| tx.insert_new(&orders, row![NONE, None::<&str>, None::<&str>])).is_err());
        assert!(db.run(|tx| tx.insert(&orders, row![NONE, None::<&str>, None::<&str>])).is_err(), "no NULL");
        db.change_table("sale", TableChange::new().identity("id", Identity::ByDefault)).expect("another one");
        last.set(0);
        insert();
        db.drop_table("sale").expect("dropped");
        let again = db.create_table(definition(Identity::ByDefault)).expect("the name is free");
        assert_eq!(db.run(|tx| tx.insert_new(&again, row![NONE, "a"])), Ok(1));
    });
}

#[test]
fn a_session_makes_and_drops_identity_columns_in_its_transaction() {
    under_every_protocol(|db, protocol| {
        let mut session = db.session().expect("a session");
        for commits in [false, true] {
            session.begin().expect("begun");
            let orders = session.create_table(definition(Identity::Always)).expect("a table");
            for expected in 1..=100 {
                assert_eq!(
                    session.run(|tx| tx.insert_new(&orders, row![NONE, "a"])),
                    Ok(expected),
                    "{protocol}"
                );
            }
            let orders = session
                .change_table("order", TableChange::new().add_column("n", DataType::Int64, 0))
                .expect("rebuilt");
            assert_eq!(session.run(|tx| tx.insert_new(&orders, row![NONE, "a", 1])), Ok(101));
            if commits {
                session.commit().expect("committed")
            } else {
                session.rollback().expect("rolled back")
            }
        }
        let orders = db.table("order").expect("committed");
        assert_eq!(db.run(|tx| tx.insert_new(&orders, row![NONE, "a", 1])), Ok(102));
        session.begin().expect("begun");
        session.drop_table("order").expect("dropped");
        session.rollback().expect("rolled back");
        assert_eq!(
            db.run(|tx| tx.insert_new(&orders, row![NONE, "a", 1])),
            Ok(103),
            "{protocol}: still there"
        );
        session.begin().expect("begun");
        session.drop_table("order").expect("dropped");
        session.commit().expect("committed");
        assert!(db.run(|tx| tx.insert_new(&orders, row![NONE, "a", 1])).is_err());
    });
}

#[test]
fn definitions_that_make_no_sense_are_refused() {
    let db = Database::in_memory().expect("a database");
    let two = definition(Identity::Always).column("n", DataType::Int64).identity(Identity::Always);
    let text =
        TableDefinition::new("t").column("id", DataType::Text).identity(Identity::Always).primary_key(["id"]);
    let default =
        TableDefinition::new("t").column("id", DataType::Int64).default(3).identity(Identity::Always);
    for wrong in [two, text, default.primary_key(["id"])] {
        let refused = db.create_table(wrong);
        assert!(matches!(refused, Err(Error::InvalidDefinition { .. })), "{refused:?}");
    }
    let orders = db.create_table(definition(Identity::Always)).expect("a table");
    for change in [
        TableChange::new().nullable("id"),
        TableChange::new().set_default("id", 4),
        TableChange::new().identity("customer", Identity::Always),
    ] {
        assert!(matches!(db.change_table("order", change), Err(Error::InvalidDefinition { .. })));
    }
    let short = db.run(|tx| tx.insert_new(&orders, row![]));
    assert!(short.is_err(), "{short:?}");
    let other = db.open_table(definition(Identity::ByDefault));
    assert!(matches!(other, Err(Error::TableDiffers { .. })), "{other:?}");
    db.open_table(definition(Identity::Always)).expect("the same");
    let own = db.create_sequence(heddledb::SequenceDefinition::new("heddle_mine"));
    assert!(matches!(own, Err(Error::InvalidSequence { .. })), "{own:?}");
}

#[test]
fn values_do_not_repeat_after_a_power_loss_at_any_moment_nor_after_a_checkpoint() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let db = on(&disk, protocol);
        let orders = db.create_table(definition(Identity::Always)).expect("a table");
        let mut highest = 0;
        for moment in 0..12 {
            for _ in 0..1 + moment * 7 % 40 {
                highest = db.run(|tx| tx.insert_new(&orders, row![NONE, "a"])).expect("drawn");
            }
            if moment == 6 {
                db.checkpoint().expect("a checkpoint");
            }
            let crashed = on(&disk.crash_image(moment), protocol);
            let again = crashed.table("order").expect("durable");
            assert_eq!(again.definition().columns()[0].identity, Some(Identity::Always));
            let next = crashed.run(|tx| tx.insert_new(&again, row![NONE, "a"])).expect("drawn");
            assert!(next > highest, "{protocol}, moment {moment}: {next} after {highest}");
        }
        db.close().expect("closed");
        let db = on(&disk, protocol);
        let orders = db.table("order").expect("durable");
        let next = db.run(|tx| tx.insert_new(&orders, row![NONE, "a"])).expect("drawn");
        assert_eq!(next, highest + 1, "{protocol}: without a gap");
    }
}

#[test]
fn an_identity_that_was_replaced_draws_from_its_own_sequence_after_recovery() {
    let disk = SimulatedDisk::new();
    let db = on(&disk, ProtocolKind::Optimistic);
    let orders = db.create_table(definition(Identity::Always)).expect("a table");
    db.run(|tx| tx.insert_new(&orders, row![NONE, "a"])).expect("drawn");
    db.change_table("order", TableChange::new().drop_identity("id")).expect("dropped");
    db.change_table("order", TableChange::new().identity("id", Identity::Always)).expect("another one");
    db.identity(&orders).expect("its sequence").set(40).expect("set");
    let crashed = on(&disk.crash_image(1), ProtocolKind::Optimistic);
    let orders = crashed.table("order").expect("durable");
    assert!(crashed.run(|tx| tx.insert_new(&orders, row![NONE, "a"])).expect("drawn") >= 40);
}

/// In a child process: inserts rows, and says each value once it is durable.
#[test]
fn child_that_inserts_until_it_is_killed() {
    let Ok(path) = std::env::var("HEDDLE_IDENTITY_CHILD") else { return };
    let db = Database::open(path, Options::default()).expect("a database");
    let orders = db.open_table(definition(Identity::Always)).expect("a table");
    loop {
        println!("value {}", db.run(|tx| tx.insert_new(&orders, row![NONE, "a"])).expect("inserted"));
    }
}

#[test]
fn no_value_repeats_after_the_process_was_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    let mut given = HashSet::new();
    for round in 1..=4 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["identity::child_that_inserts_until_it_is_killed", "--exact", "--nocapture"])
            .env("HEDDLE_IDENTITY_CHILD", &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let value = |line: String| line.strip_prefix("value ").and_then(|text| text.parse::<i64>().ok());
        let mut count = 0;
        for value in output.lines().map_while(Result::ok).filter_map(value) {
            assert!(given.insert(value), "round {round}: {value} again");
            count += 1;
            if count == 40 * round {
                child.kill().expect("killed");
            }
        }
        child.wait().expect("it has ended");
    }
    let db = Database::open(&path, Options::default()).expect("a database");
    let orders = db.table("order").expect("durable");
    let stored: HashSet<i64> = ids(&db, &orders).into_iter().collect();
    assert!(given.is_subset(&stored), "what was said is durable");
}

#[test]
fn structs_get_their_values_too() {
    #[derive(Debug, PartialEq, heddledb::Table)]
    struct Sale {
        #[table(key, identity)]
        id: i64,
        customer: String,
    }
    #[derive(heddledb::Table)]
    struct Visit {
        #[table(key)]
        place: String,
        #[table(identity(always))]
        number: i64,
    }
    under_every_protocol(|db, protocol| {
        let sales = db.table_of::<Sale>().expect("a table");
        let mut sale = Sale { id: 0, customer: "Ada".to_string() };
        sale.id = db.run(|tx| tx.insert_new(&sales, &sale)).expect("drawn");
        assert_eq!(db.run(|tx| tx.get(&sales, sale.id)), Ok(Some(sale)), "{protocol}");
        db.run(|tx| tx.insert(&sales, &Sale { id: 7, customer: "Bo".to_string() })).expect("by default");
        let visits = db.table_of::<Visit>().expect("a table");
        let mut visit = Visit { place: "Bergen".to_string(), number: 0 };
        visit.number = db.run(|tx| tx.insert_new(&visits, &visit)).expect("drawn");
        db.run(|tx| tx.update_row(&visits, &visit)).expect("its number stays");
        assert!(!db.run(|tx| tx.put(&visits, &visit)).expect("there"));
        assert_eq!(visit.number, 1);
    });
}
