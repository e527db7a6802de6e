//! Repeated actions: how many rows a call touches depends on its arguments, and all of them are declared.

use crate::support::tables::{counter_definition, in_memory, refused};
use heddledb::{
    Action, Args, DataType, Database, Durability, Error, Options, Procedure, ProcedureDefinition,
    ProtocolKind, ProtocolOptions, Result, SerialOptions, Table, Value, args, fail, key, row,
};

/// Counters 1 to 9, which hold ten times their number.
fn fill(db: &Database) -> Table {
    let table = db.create_table(counter_definition()).unwrap();
    db.run(|tx| (1..=9).try_for_each(|id| tx.insert(&table, row![id, id * 10]))).unwrap();
    table
}

fn counters() -> (Database, Table) {
    let db = in_memory();
    let table = fill(&db);
    (db, table)
}

fn n(db: &Database, id: i64) -> i64 {
    let table = db.table("counter").unwrap();
    db.run(|tx| tx.get(&table, key![id])?.unwrap().int("n")).unwrap()
}

/// A procedure of a number and of this many identifiers.
fn definition(name: &str) -> ProcedureDefinition {
    let mut definition = ProcedureDefinition::new(name).parameter("count", DataType::Int64);
    for place in 0..4 {
        definition = definition.parameter(format!("id_{place}"), DataType::Int64);
    }
    definition
}

fn count(args: &Args) -> Result<usize> {
    usize::try_from(args.int(0)?).map_err(|_| fail("a negative count"))
}

fn ids(ids: &[i64]) -> Args {
    let mut args = args![ids.len() as i64];
    (0..4).for_each(|place| args.push(ids.get(place).copied()));
    args
}

/// Adds to every named counter its place in the arguments, counted from 1.
fn add_places(db: &Database, table: &Table) -> Procedure {
    let add = Action::commute(table)
        .each(count, |args, place, key| key.push(args.int(1 + place)?))
        .body(|action, place| action.add("n", 1 + place as i64));
    db.register(definition("add-places").phase([add])).unwrap()
}

/// One counter, by a procedure without repetition.
fn add_hundred(db: &Database, table: &Table) -> Procedure {
    let add =
        Action::commute(table).key(|args, key| key.push(args.int(0)?)).body(|action| action.add("n", 100));
    let definition = ProcedureDefinition::new("add-hundred").parameter("id", DataType::Int64);
    db.register(definition.phase([add])).unwrap()
}

#[test]
fn an_action_is_repeated_as_often_as_the_arguments_say() {
    let (db, table) = counters();
    let procedure = add_places(&db, &table);
    assert!(!procedure.is_read_only());
    for called in [&[1, 2, 3, 4][..], &[5], &[], &[9, 8]] {
        db.call(&procedure, ids(called)).unwrap();
    }
    let found: Vec<i64> = (1..=9).map(|id| n(&db, id)).collect();
    assert_eq!(found, [11, 22, 33, 44, 51, 60, 70, 82, 91]);
}

#[test]
fn instances_may_name_one_row_twice() {
    for protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).protocol(*protocol).workers(2);
        one_row_twice(&Database::in_memory_with(options).unwrap());
    }
}

fn one_row_twice(db: &Database) {
    let table = fill(db);
    let update = Action::write(&table).each(count, |args, place, key| key.push(args.int(1 + place)?)).body(
        |action, _| {
            let n = action.get()?.unwrap().int("n")?;
            action.return_row(vec![n.into()]);
            action.update(&[("n", (n * 2).into())])
        },
    );
    let double = db.register(definition("double").phase([update])).unwrap();
    let output = db.call(&double, ids(&[3, 4, 3])).unwrap();
    assert_eq!(output.rows, [[Value::from(30)], [Value::from(40)], [Value::from(60)]]);
    assert_eq!((n(db, 3), n(db, 4)), (120, 80));
    let mut worker = db.worker().unwrap();
    let mut done = Vec::new();
    worker.execute_group(&[double], &[(0, ids(&[3, 3])), (0, ids(&[4, 3]))], &mut done);
    let rows: Vec<_> = done.into_iter().map(|executed| executed.wait().unwrap().rows).collect();
    assert_eq!(rows[0], [[Value::from(120)], [Value::from(240)]]);
    assert_eq!(rows[1], [[Value::from(80)], [Value::from(480)]]);
}

#[test]
fn an_instance_reaches_its_own_row_only() {
    let (db, table) = counters();
    let other = table.clone();
    let look = Action::read(&table).each(count, |args, place, key| key.push(args.int(1 + place)?)).body(
        move |action, place| {
            let own = action.args().int(1 + place)?;
            assert_eq!(action.get()?.unwrap().int("n")?, own * 10);
            let error = action.tx().get(&other, key![own + 1]).unwrap_err();
            assert!(matches!(error, Error::OutsideFootprint { .. }), "{error}");
            assert!(matches!(action.add("n", 1), Err(Error::OutsideFootprint { .. })));
            Ok(())
        },
    );
    let look = db.register(definition("look").phase([look])).unwrap();
    assert!(look.is_read_only());
    db.call(&look, ids(&[1, 2, 3])).unwrap();
}

#[test]
fn instances_stand_between_other_actions_and_hand_values_on() {
    let (db, table) = counters();
    let definition = definition("sum")
        .phase([
            Action::read(&table).key(|_, key| key.push(9)).body(|action| {
                action.set_value(0, action.get()?.unwrap().int("n")?);
                Ok(())
            }),
            // Later instances set lower numbers: values are found by their numbers, in whatever order they come.
            Action::read(&table).each(count, |args, place, key| key.push(args.int(1 + place)?)).body(
                |action, place| {
                    action.set_value(10 - place, action.get()?.unwrap().int("n")?);
                    Ok(())
                },
            ),
        ])
        .phase([Action::write(&table).key_from(|_, values, key| key.push(values.int(0)? / 90)).body(
            |action| {
                let values = action.values();
                let all: Result<i64> = (0..count(action.args())?).map(|place| values.int(10 - place)).sum();
                refused(values.int(10 - count(action.args())?), &["no earlier phase"]);
                action.update(&[("n", all?.into())])
            },
        )])
        .phase([Action::commute(&table)
            .each(count, |args, place, key| key.push(args.int(1 + place)?))
            .body(|action, _| action.add("n", action.values().int(0)?))]);
    let sum = db.register(definition).unwrap();
    db.call(&sum, ids(&[2, 5, 7])).unwrap();
    assert_eq!([1, 2, 5, 7, 9].map(|id| n(&db, id)), [140, 110, 140, 160, 90]);
    db.call(&sum, ids(&[])).unwrap();
    assert_eq!(n(&db, 1), 0);
}

#[test]
fn groups_mix_procedures_with_and_without_repetition() {
    let (db, table) = counters();
    let procedures = [add_hundred(&db, &table), add_places(&db, &table)];
    let mut worker = db.worker().unwrap();
    let mut done = Vec::new();
    let calls: Vec<(usize, Args)> = (0..300_i64)
        .map(|call| match call % 3 {
            0 => (0, args![call % 9 + 1]),
            1 => (1, ids(&[1, 2, 3][..(call % 4) as usize % 4])),
            // As many instances as the other procedure has actions.
            _ => (1, ids(&[9])),
        })
        .collect();
    worker.execute_group(&procedures, &calls, &mut done);
    assert!(done.drain(..).all(|executed| executed.wait().is_ok()));
    let mut expected: Vec<i64> = (1..=9).map(|id| id * 10).collect();
    for (procedure, args) in &calls {
        if *procedure == 0 {
            expected[args.int(0).unwrap() as usize - 1] += 100;
        } else {
            (0..args.int(0).unwrap())
                .for_each(|place| expected[args.int(1 + place as usize).unwrap() as usize - 1] += place + 1);
        }
    }
    assert_eq!((1..=9).map(|id| n(&db, id)).collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_wrong_with_a_count_or_a_key_fails_the_call_alone() {
    let (db, table) = counters();
    let procedure = add_places(&db, &table);
    let called = |args: Args| db.call(&procedure, args);
    refused(called(args![-1, 1, 2, 3, 4]), &["a negative count"]);
    refused(called(args![5, 1, 2, 3, 4]), &["argument 5"]);
    refused(called(args![2, 1, None::<i64>, 3, 4]), &["argument 2", "NULL"]);
    refused(called(args![100_000, 1, 2, 3, 4]), &["repetitions on \"counter\"", "100000", "65536"]);
    refused(called(args![1, 2]), &["2"]);
    // Calls before and behind the one that is refused are done.
    let mut worker = db.worker().unwrap();
    let mut done = Vec::new();
    let calls = [(0, ids(&[1])), (0, args![-1, 1, 2, 3, 4]), (0, ids(&[1, 2]))];
    worker.execute_group(std::slice::from_ref(&procedure), &calls, &mut done);
    let ended: Vec<bool> = done.drain(..).map(|executed| executed.wait().is_ok()).collect();
    assert_eq!(ended, [true, false, true]);
    assert_eq!((n(&db, 1), n(&db, 2)), (12, 22));
    // A body that fails takes back what the instances before it have done.
    let picky = Action::commute(&table).each(count, |args, place, key| key.push(args.int(1 + place)?)).body(
        |action, place| {
            action.add("n", 1)?;
            if place == 2 { Err(fail("not the third")) } else { Ok(()) }
        },
    );
    let picky = db.register(definition("picky").phase([picky])).unwrap();
    db.call(&picky, ids(&[4, 5])).unwrap();
    refused(db.call(&picky, ids(&[4, 5, 6])), &["not the third"]);
    assert_eq!([4, 5, 6].map(|id| n(&db, id)), [41, 51, 60]);
}

#[test]
fn a_repeated_action_has_one_key_and_one_body() {
    let (db, table) = counters();
    let each = || Action::read(&table).each(|_| Ok(1), |_, _, key| key.push(1)).body(|_, _| Ok(()));
    let wrong = [
        each().key(|_, key| key.push(1)),
        each().key_from(|_, _, key| key.push(1)),
        each().body(|_| Ok(())),
        Action::read(&table).body(|_| Ok(())).each(|_| Ok(1), |_, _, key| key.push(1)).body(|_, _| Ok(())),
    ];
    for action in wrong {
        let first = Action::read(&table).body(|_| Ok(()));
        let definition = ProcedureDefinition::new("wrong").phase([first]).phase([action]);
        refused(db.register(definition), &["\"counter\" in phase 2", "second key or body", "each"]);
    }
    let elsewhere = in_memory();
    assert!(elsewhere.register(ProcedureDefinition::new("far").phase([each()])).is_err());
}

#[test]
fn every_protocol_counts_the_same() {
    const CALLS: i64 = 300;
    for protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).workers(2);
        let serial = SerialOptions::default().partitions(3);
        let options = options.protocol(ProtocolOptions::from(*protocol).serial(serial));
        let db = Database::in_memory_with(options).unwrap();
        let table = fill(&db);
        let read_first = Action::write(&table)
            .each(count, |args, place, key| key.push(args.int(1 + place)?))
            .body(|action, _| {
                let n = action.get()?.unwrap().int("n")?;
                action.update(&[("n", (n + 1).into())])
            });
        let raise = db.register(definition("raise").phase([read_first])).unwrap();
        std::thread::scope(|scope| {
            for caller in 0..3 {
                let (db, raise) = (&db, &raise);
                scope.spawn(move || {
                    for call in 0..CALLS {
                        let all = [1 + (call + caller) % 9, 1 + (call * 2) % 9, 1 + call % 2];
                        db.call(raise, ids(&all[..1 + (call % 3) as usize])).unwrap();
                    }
                });
            }
        });
        let sum: i64 = (1..=9).map(|id| n(&db, id)).sum();
        assert_eq!(sum, 450 + 3 * CALLS * 2, "{protocol}");
    }
}
