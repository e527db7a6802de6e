//! Accesses outside of a procedure's footprint: each is refused with what to declare.

use heddledb::{
    Action, ActionContext, Database, Error, ProcedureDefinition, Range, Result, Table, Tx, Value, args, key,
    row,
};

use super::{counters, n, orders};
use crate::assert_kind;
use crate::support::tables::{
    account_definition, counter_definition, dump, in_memory, order_definition, refused, rows_of,
};

/// Calls a procedure of one action with this body, which must fail outside of its footprint.
#[track_caller]
fn outside(
    db: &Database,
    action: Action,
    words: &[&str],
    body: impl Fn(&ActionContext<'_, '_>) -> Result<()> + Send + Sync + 'static,
) {
    let tables: Vec<_> = db.tables().iter().map(|table| dump(db, table)).collect();
    let procedure = db.register(ProcedureDefinition::new("outside").phase([action.body(body)])).unwrap();
    let error = refused(db.call(&procedure, args![]), words);
    assert_kind!(error, Error::OutsideFootprint { .. });
    let after: Vec<_> = db.tables().iter().map(|table| dump(db, table)).collect();
    assert_eq!(tables, after);
}

const DECLARE: &str = "declare it in the procedure's actions";

#[test]
fn another_table_is_outside() {
    let (db, table) = counters();
    let other = db.create_table(order_definition()).unwrap();
    let whole = || Action::write(&table);
    let words = ["\"orders\"", DECLARE];
    let t = other.clone();
    outside(&db, whole(), &words, move |action| action.tx().get(&t, key![1, 1]).map(drop));
    let t = other.clone();
    outside(&db, whole(), &words, move |action| action.tx().exists(&t, key![1, 1]).map(drop));
    let t = other.clone();
    outside(&db, whole(), &words, move |action| action.tx().insert(&t, row![1, 1, 1]));
    let t = other.clone();
    outside(&db, whole(), &words, move |action| action.tx().update(&t, key![1, 1], &[("total", 1.into())]));
    let t = other.clone();
    outside(&db, whole(), &words, move |action| action.tx().delete(&t, key![1, 1]).map(drop));
    let t = other.clone();
    outside(&db, whole(), &words, move |action| action.tx().add(&t, key![1, 1], "total", 1));
    outside(&db, whole(), &words, move |action| rows_of(action.tx().scan(&other, Range::all())).map(drop));
}

#[test]
fn another_key_is_outside() {
    let (db, table) = counters();
    let one = || Action::write(&table).key(|_, key| key.push(1));
    let words = ["this key of \"counter\"", DECLARE];
    type Access = fn(&Table, &Tx<'_, '_>) -> Result<()>;
    let accesses: [Access; 6] = [
        |table, tx| tx.get(table, key![2]).map(drop),
        |table, tx| tx.exists(table, key![2]).map(drop),
        |table, tx| tx.insert(table, row![20, 1]),
        |table, tx| tx.update(table, key![2], &[("n", 1.into())]),
        |table, tx| tx.delete(table, key![2]).map(drop),
        |table, tx| tx.min(table, key![2], "n", 1),
    ];
    for access in accesses {
        let t = table.clone();
        outside(&db, one(), &words, move |action| access(&t, &action.tx()));
    }
    outside(&db, one(), &words, |action| action.insert(row![20, 1]));
    // What is inside, by each way to it.
    let t = table.clone();
    let inside = ProcedureDefinition::new("inside").phase([one().body(move |action| {
        let tx = action.tx();
        assert_eq!(tx.get(&t, key![1])?.unwrap().int("n")?, 10);
        assert_eq!(rows_of(tx.scan(&t, Range::prefix(key![1])))?.len(), 1);
        assert!(tx.exists(&t, key![1])? && action.exists()?);
        assert!(action.delete()? && !action.exists()? && !tx.delete(&t, key![1])?);
        action.insert(row![1, 11])?;
        action.update(&[("n", 12.into())])?;
        tx.max(&t, key![1], "n", 13)
    })]);
    db.call(&db.register(inside).unwrap(), args![]).unwrap();
    assert_eq!(n(&db, &table, 1), 13);
}

#[test]
fn a_range_is_outside_where_a_key_is_declared() {
    let (db, table) = counters();
    let one = || Action::read(&table).key(|_, key| key.push(1));
    for range in [
        Range::all(),
        Range::from(key![1]),
        Range::from(key![1]).to(key![2]),
        Range::from(key![1]).to_inclusive(key![1]),
        Range::prefix(key![2]),
        Range::all().limit(1),
        Range::all().reverse(),
    ] {
        let t = table.clone();
        let words = ["a range of \"counter\"", DECLARE];
        outside(&db, one(), &words, move |action| rows_of(action.tx().scan(&t, range.clone())).map(drop));
    }
}

#[test]
fn a_range_that_leaves_the_declared_prefix_is_outside() {
    let (db, table) = orders();
    let two = || Action::read(&table).key(|_, key| key.push(2));
    for range in
        [Range::all(), Range::prefix(key![3]), Range::from(key![2]).to(key![3]), Range::prefix(key![1, 2])]
    {
        let t = table.clone();
        outside(&db, two(), &["\"orders\"", DECLARE], move |action| {
            rows_of(action.tx().scan(&t, range.clone())).map(drop)
        });
    }
    // Neither a beginning before the prefix nor an end beyond it leads out of it.
    let t = table.clone();
    let within = ProcedureDefinition::new("within").phase([two().body(move |action| {
        let tx = action.tx();
        for range in [
            Range::prefix(key![2]),
            Range::prefix(key![2]).to(key![4]),
            Range::prefix(key![2]).to_inclusive(key![3]),
            Range::prefix(key![2]).to_inclusive(key![4, 4]),
            Range::prefix(key![2]).to(key![9, 9]).reverse(),
            Range::prefix(key![2]).starting_at(key![1, 3]).to(key![3]),
            Range::prefix(key![2]).starting_at(key![2]).reverse(),
        ] {
            let totals = rows_of(tx.scan(&t, range.clone()))?;
            assert!(totals.iter().all(|row| row[0] == Value::from(2)), "{range:?}: {totals:?}");
            assert_eq!(totals.len(), 4, "{range:?}");
        }
        assert_eq!(rows_of(tx.scan(&t, Range::prefix(key![2]).to(key![2, 3])))?.len(), 2);
        let later = Range::prefix(key![2]).starting_at(key![2, 2]);
        assert_eq!(rows_of(tx.scan(&t, later.clone()))?.len(), 3);
        assert_eq!(rows_of(tx.scan(&t, later.to(key![2, 4])))?.len(), 2);
        assert!(rows_of(tx.scan(&t, Range::prefix(key![2]).starting_at(key![3])))?.is_empty());
        assert_eq!(rows_of(tx.scan(&t, Range::prefix(key![2, 3])))?.len(), 1);
        assert_eq!(tx.get(&t, key![2, 3])?.unwrap().int("total")?, 203);
        let error = refused(action.get(), &["declares no whole key", "use tx()"]);
        assert_kind!(error, Error::OutsideFootprint { .. });
        refused(tx.get(&t, key![3, 3]), &["this key of \"orders\""]);
        Ok(())
    })]);
    db.call(&db.register(within).unwrap(), args![]).unwrap();
}

#[test]
fn rows_that_an_index_leads_to_are_outside_unless_they_are_declared() {
    let db = in_memory();
    let table = db.create_table(account_definition()).unwrap();
    db.run(|tx| {
        tx.insert(&table, row![1, "ada", 7, 1, 0])?;
        tx.insert(&table, row![2, "bea", 8, 2, 0])
    })
    .unwrap();
    let one = || Action::read(&table).key(|_, key| key.push(1));
    let t = table.clone();
    outside(&db, one(), &["this key of \"account\""], move |action| {
        rows_of(action.tx().scan_index(&t, "account_by_name", Range::all())).map(drop)
    });
    let t = table.clone();
    let own = ProcedureDefinition::new("own").phase([one().body(move |action| {
        let by_branch = action.tx().scan_index(&t, "account_by_branch", Range::prefix(key![7]));
        assert_eq!(rows_of(by_branch)?.len(), 1);
        Ok(())
    })]);
    db.call(&db.register(own).unwrap(), args![]).unwrap();
    let t = table.clone();
    let other = db.create_table(counter_definition()).unwrap();
    outside(&db, Action::read(&other), &["\"account\""], move |action| {
        rows_of(action.tx().scan_index(&t, "account_by_name", Range::all())).map(drop)
    });
}

#[test]
fn the_wrong_mode_is_outside() {
    let (db, table) = counters();
    let one = |mode: fn(&Table) -> Action| mode(&table).key(|_, key| key.push(1));
    let read_words = ["declares \"counter\" as Read", DECLARE];
    let writes: [fn(&ActionContext<'_, '_>) -> Result<()>; 6] = [
        |action| action.insert(row![1, 1]),
        |action| action.update(&[("n", 1.into())]),
        |action| action.delete().map(drop),
        |action| action.add("n", 1),
        |action| action.max("n", 1),
        |action| action.min("n", 1),
    ];
    for write in writes {
        outside(&db, one(Action::read), &read_words, write);
    }
    let commute_words = ["declares \"counter\" as Commute", DECLARE];
    let t = table.clone();
    outside(&db, one(Action::commute), &["\"counter\""], move |action| {
        rows_of(action.tx().scan(&t, Range::prefix(key![1]))).map(drop)
    });
    let t = table.clone();
    outside(&db, one(Action::commute), &commute_words, move |action| action.tx().get(&t, key![1]).map(drop));
    let others: [fn(&ActionContext<'_, '_>) -> Result<()>; 5] = [
        |action| action.get().map(drop),
        |action| action.exists().map(drop),
        |action| action.insert(row![1, 1]),
        |action| action.update(&[("n", 1.into())]),
        |action| action.delete().map(drop),
    ];
    for other in others {
        outside(&db, one(Action::commute), &commute_words, other);
    }
    let bump = ProcedureDefinition::new("bump").phase([one(Action::commute).body(|action| {
        action.add("n", 5)?;
        action.max("n", 3)?;
        action.min("n", 14)
    })]);
    db.call(&db.register(bump).unwrap(), args![]).unwrap();
    assert_eq!(n(&db, &table, 1), 14);
}

#[test]
fn an_error_of_the_footprint_that_a_body_ignores_has_done_nothing() {
    let (db, table) = counters();
    let t = table.clone();
    let ignoring = ProcedureDefinition::new("ignoring").phase([Action::commute(&table)
        .key(|_, key| key.push(1))
        .body(move |action| {
            let _ = action.update(&[("n", 99.into())]);
            let _ = action.tx().add(&t, key![2], "n", 99);
            action.add("n", 1)
        })]);
    db.call(&db.register(ignoring).unwrap(), args![]).unwrap();
    assert_eq!((n(&db, &table, 1), n(&db, &table, 2)), (11, 20));
}

#[test]
fn an_action_may_not_use_what_another_action_declares() {
    let (db, table) = counters();
    let t = table.clone();
    let two = ProcedureDefinition::new("two").phase([
        Action::write(&table).key(|_, key| key.push(1)).body(|action| action.add("n", 1)),
        Action::read(&table).key(|_, key| key.push(2)).body(move |action| {
            refused(action.tx().get(&t, key![1]), &["this key of \"counter\""]);
            refused(action.add("n", 1), &["as Read"]);
            Ok(())
        }),
    ]);
    db.call(&db.register(two).unwrap(), args![]).unwrap();
}

#[test]
fn a_key_from_values_must_begin_as_declared() {
    let (db, table) = orders();
    let first = || Action::read(&table).key(|_, key| key.push(1)).body(|_| Ok(()));
    let later = |name, customer: i64, declared: i64| {
        ProcedureDefinition::new(name).phase([first()]).phase([Action::write(&table)
            .key(move |_, key| key.push(declared))
            .key_from(move |_, _, key| {
                key.push(customer)?;
                key.push(3)
            })
            .body(|action| {
                action.return_row(action.get()?.unwrap().to_values());
                action.add("total", 1)
            })])
    };
    let before = dump(&db, &table);
    let wrong = db.register(later("wrong", 2, 3)).unwrap();
    let error = refused(db.call(&wrong, args![]), &["\"orders\"", "does not begin as declared"]);
    assert_kind!(error, Error::OutsideFootprint { .. });
    assert_eq!(dump(&db, &table), before);
    let right = db.register(later("right", 3, 3)).unwrap();
    assert_eq!(db.call(&right, args![]).unwrap().rows, [row![3, 3, 303].map(Value::from)]);
    // A key with too many values, or values of another type.
    let long = ProcedureDefinition::new("long").phase([Action::read(&table)
        .key(|_, key| (0..3).try_for_each(|value| key.push(value)))
        .body(|_| Ok(()))]);
    let long = db.register(long).unwrap();
    assert_kind!(refused(db.call(&long, args![]), &["orders", "3 values"]), Error::WrongKey { .. });
    let typed = ProcedureDefinition::new("typed")
        .phase([Action::read(&table).key(|_, key| key.push("x")).body(|_| Ok(()))]);
    let typed = db.register(typed).unwrap();
    assert_kind!(refused(db.call(&typed, args![]), &["orders.customer", "a text"]), Error::WrongType { .. });
}
