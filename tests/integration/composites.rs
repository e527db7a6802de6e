//! Structs and tuples as parameters of procedures and as rows of their output; procedures found by name.

use heddledb::{
    Action, Args, Composite, DataType, Database, Decimal, Error, Options, Parameters, Procedure,
    ProcedureDefinition, ProtocolKind, Result, Table, TableDefinition, TableOf, args,
};

#[derive(Debug, PartialEq, Table)]
struct Account {
    #[table(key)]
    id: i64,
    owner: String,
    balance: i64,
}

#[derive(Clone, Composite)]
struct Transfer {
    from: i64,
    to: i64,
    amount: u32,
}

#[derive(Debug, PartialEq, Composite)]
struct Renaming {
    id: i64,
    owner: String,
    note: Option<String>,
    image: Vec<u8>,
    #[composite(data_type = "decimal(12, 2)")]
    price: Option<Decimal>,
}

fn bank(protocol: ProtocolKind) -> (Database, TableOf<Account>) {
    let options = Options::default().durability(heddledb::Durability::None).protocol(protocol);
    let db = Database::in_memory_with(options).expect("options are right");
    let accounts = db.table_of::<Account>().expect("a table");
    db.run(|tx| {
        (1..=3).try_for_each(|id| tx.insert(&accounts, &Account { id, owner: "Ada".into(), balance: 100 }))
    })
    .expect("inserted");
    (db, accounts)
}

/// Two actions on what the struct says, and a row of the output from each.
fn transfer(accounts: &TableOf<Account>) -> ProcedureDefinition {
    let pay = Action::write(accounts).with::<Transfer>().key(|transfer, key| key.push(transfer.from)).body(
        |transfer, action| {
            action.add("balance", -i64::from(transfer.amount))?;
            let balance = action.get()?.map_or(Ok(0), |account| account.int("balance"))?;
            action.return_values((transfer.from, balance));
            Ok(())
        },
    );
    let receive = Action::commute(accounts)
        .with::<Transfer>()
        .key(|transfer, key| key.push(transfer.to))
        .body(|transfer, action| action.add("balance", transfer.amount));
    ProcedureDefinition::new("transfer").phase([pay, receive])
}

#[test]
fn a_struct_is_the_parameters_under_every_protocol() {
    for protocol in ProtocolKind::ALL {
        let (db, accounts) = bank(*protocol);
        let procedure = db.register(transfer(&accounts)).expect("it is taken");
        let call = Transfer { from: 1, to: 2, amount: 30 };
        let output = db.call(&procedure, call.clone()).expect("it commits");
        assert_eq!(output.rows_as::<(i64, i64)>(), Ok(vec![(1, 70)]), "{protocol}");
        let submitted =
            db.submit(&procedure, call.clone()).expect("there is room").wait().expect("it commits");
        assert_eq!(submitted.rows_as::<(i64, i64)>(), Ok(vec![(1, 40)]));
        // The same call by values.
        db.call(&procedure, args![1, 3, 10]).expect("it commits");
        let mut worker = db.worker().expect("a worker");
        worker.execute(&procedure, call.into()).wait().expect("it commits");
        let balances = db
            .read(|snapshot| {
                snapshot.scan(&accounts, ..)?.map(|row| Ok(row?.balance)).collect::<Result<Vec<_>>>()
            })
            .expect("read");
        assert_eq!(balances, [0, 190, 110], "{protocol}");
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused_and_name_the_field() {
    let (db, accounts) = bank(ProtocolKind::default());
    let procedure = db.register(transfer(&accounts)).expect("it is taken");
    let refused = |args: Args| db.call(&procedure, args).expect_err("it does not fit").to_string();
    assert!(refused(args![1, 2]).contains("3"));
    assert!(refused(args![1, 2, "three"]).contains("amount"));
    assert!(refused(args![1, 2, None::<i64>]).contains("amount"), "NULL is no u32");
    assert!(refused(args![1, 2, -1]).contains("amount"), "a negative number is no u32");
    assert!(refused(args![1, 2, i64::from(u32::MAX) + 1]).contains("amount"));
    assert_eq!(db.run(|tx| tx.get(&accounts, 1)).map(|row| row.map(|row| row.balance)), Ok(Some(100)));
}

#[test]
fn texts_and_bytes_are_lent() {
    let (db, accounts) = bank(ProtocolKind::default());
    let rename = Action::write(&accounts).with::<Renaming>().key(|renaming, key| key.push(renaming.id)).body(
        |renaming, action| {
            let owner: &str = renaming.owner;
            action.update(&[("owner", owner.into())])?;
            let (note, image): (Option<&str>, &[u8]) = (renaming.note, renaming.image);
            action.return_values((note, image, renaming.price));
            Ok(())
        },
    );
    let rename = db.register(ProcedureDefinition::new("rename").phase([rename])).expect("it is taken");
    let price: Decimal = "1.50".parse().expect("a decimal");
    for (note, price) in [(Some("new".to_string()), Some(price)), (None, None)] {
        let renaming = Renaming { id: 2, owner: "Bea".into(), note: note.clone(), image: vec![7, 8], price };
        let output = db.call(&rename, renaming).expect("it commits");
        let rows = output.rows_as::<(Option<String>, Vec<u8>, Option<Decimal>)>();
        assert_eq!(rows, Ok(vec![(note, vec![7, 8], price)]));
    }
    let owner = db.run(|tx| tx.get(&accounts, 2)).expect("read").expect("a row").owner;
    assert_eq!(owner, "Bea");
}

#[test]
fn a_row_of_the_output_is_a_struct() {
    let (db, accounts) = bank(ProtocolKind::default());
    let renaming = || Renaming { id: 1, owner: "Cem".into(), note: None, image: vec![], price: None };
    let list = Action::read(&accounts).body(move |action| {
        action.return_values(renaming());
        action.return_row(vec![1.into(), "short".into()]);
        Ok(())
    });
    let list = db.register(ProcedureDefinition::new("list").phase([list])).expect("it is taken");
    let mut output = db.call(&list, args![]).expect("it commits");
    let error = output.rows_as::<Renaming>().expect_err("the second row is short").to_string();
    assert!(error.contains("5 values") && error.contains('2'), "{error}");
    output.rows.truncate(1);
    assert_eq!(output.rows_as::<Renaming>(), Ok(vec![renaming()]));
    assert!(output.rows_as::<Account2>().is_err());
}

/// A struct with as many fields as a [`Renaming`], of other types.
#[derive(Debug, PartialEq, Composite)]
struct Account2 {
    a: i64,
    b: i64,
    c: i64,
    d: i64,
    e: i64,
}

#[test]
fn parameters_come_from_the_actions_and_agree() {
    let named = |parameters: &[(&str, DataType)]| {
        parameters.iter().map(|(name, of)| (name.to_string(), of.clone())).collect::<Vec<_>>()
    };
    let int = DataType::Int64;
    let expected = named(&[("from", int.clone()), ("to", int.clone()), ("amount", int.clone())]);
    assert_eq!(Transfer::parameters(), Ok(expected));
    let (db, accounts) = bank(ProtocolKind::default());
    let none = || Action::read(&accounts).body(|_| Ok(()));
    let pair = || Action::read(&accounts).with::<(i64, String)>().body(|_, _| Ok(()));
    let with_transfer = || Action::read(&accounts).with::<Transfer>().body(|_, _| Ok(()));
    let refused = |definition: ProcedureDefinition| match db.register(definition) {
        Err(Error::InvalidProcedure { detail, .. }) => detail,
        other => format!("it is taken: {other:?}"),
    };
    let mixed = refused(ProcedureDefinition::new("mixed").phase([pair(), none()]).phase([with_transfer()]));
    assert!(mixed.contains("give all of its actions the same"), "{mixed}");
    let declared = ProcedureDefinition::new("declared").parameter("id", int.clone());
    assert!(refused(declared.phase([pair()])).contains("(id int64)"));
    let declared = ["from", "to", "amount"]
        .into_iter()
        .fold(ProcedureDefinition::new("same"), |same, name| same.parameter(name, int.clone()));
    db.register(declared.phase([with_transfer()])).expect("they are the same");
}

#[derive(Composite)]
struct NoType {
    #[composite(data_type = "decimal(twelve)")]
    _price: Decimal,
}

#[test]
fn a_type_that_is_none_is_refused_when_the_procedure_is_registered() {
    let (db, accounts) = bank(ProtocolKind::default());
    let action = Action::read(&accounts).with::<NoType>().body(|_, _| Ok(()));
    assert!(matches!(
        db.register(ProcedureDefinition::new("p").phase([action])),
        Err(Error::InvalidType { .. })
    ));
}

#[test]
fn procedures_are_found_by_name_while_they_have_a_handle() {
    let (db, accounts) = bank(ProtocolKind::default());
    assert!(db.procedure("transfer").is_none() && db.procedures().is_empty());
    let registered = db.register(transfer(&accounts)).expect("it is taken");
    let found = db.procedure("transfer").expect("it is registered");
    drop(registered);
    db.call(&found, (1, 2, 10)).expect("it commits");
    let look = Action::read(&accounts).body(|_| Ok(()));
    let look = db.register(ProcedureDefinition::new("look").phase([look])).expect("it is taken");
    let names: Vec<_> = db.procedures().iter().map(|procedure| procedure.name().to_string()).collect();
    assert_eq!(names, ["look", "transfer"]);
    drop((found, look));
    assert!(db.procedure("transfer").is_none() && db.procedures().is_empty());
    // Calls under way keep what they run, not its name.
    for _ in 0..100 {
        let again = db.register(transfer(&accounts)).expect("the name is free");
        drop(db.submit(&again, (1, 2, 0)).expect("there is room"));
    }
}

#[test]
fn a_name_belongs_to_one_procedure_at_a_time() {
    let (db, accounts) = bank(ProtocolKind::default());
    let numbered = |number: i64| {
        let action = Action::read(&accounts).body(move |action| {
            action.return_values((number,));
            Ok(())
        });
        ProcedureDefinition::new("number").phase([action])
    };
    let called =
        |procedure: &Procedure| db.call(procedure, args![]).and_then(|output| output.rows_as::<(i64,)>());
    let first = db.register(numbered(1)).expect("the name is free");
    let error = db.register(numbered(2)).expect_err("the name is taken");
    assert!(matches!(&error, Error::ProcedureExists { procedure } if procedure == "number"), "{error}");
    assert!(error.to_string().contains("Database::procedure"), "{error}");
    // Anonymous ones take no name.
    let others = [2, 3].map(|number| db.register_anonymous(numbered(number)).expect("it is taken"));
    assert_eq!(called(&db.procedure("number").expect("it is registered")), Ok(vec![(1,)]));
    assert_eq!(others.each_ref().map(called), [Ok(vec![(2,)]), Ok(vec![(3,)])]);
    assert_eq!(db.procedures().len(), 1);
    drop(first);
    assert!(db.procedure("number").is_none());
    let again = db.register(numbered(4)).expect("the name is free again");
    assert_eq!(called(&again), Ok(vec![(4,)]));
}

#[test]
fn of_threads_that_register_one_name_one_succeeds() {
    let (db, accounts) = bank(ProtocolKind::default());
    for _ in 0..50 {
        let definition = || ProcedureDefinition::new("one").phase([Action::read(&accounts).body(|_| Ok(()))]);
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| db.register(definition()))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(all.iter().filter(|registered| registered.is_ok()).count(), 1);
    }
}

#[test]
fn a_database_that_is_opened_again_takes_the_same_names() {
    let directory = tempfile::tempdir().expect("a directory");
    for _ in 0..2 {
        let db = Database::open(directory.path(), Options::default()).expect("it opens");
        let definition = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
        let table = db.open_table(definition).expect("it is opened");
        let action = Action::read(&table).body(|_| Ok(()));
        db.register(ProcedureDefinition::new("p").phase([action])).expect("the name is free");
        db.close().expect("it closes");
    }
}

#[test]
fn a_body_that_holds_a_table_does_not_keep_the_database_open() {
    let directory = tempfile::tempdir().expect("a directory");
    for _ in 0..2 {
        let db = Database::open(directory.path(), Options::default()).expect("no other handle is left");
        let accounts = db.table_of::<Account>().expect("a table");
        let numbers = match db.sequence("number") {
            Ok(numbers) => numbers,
            Err(_) => db.create_sequence(heddledb::SequenceDefinition::new("number")).expect("a sequence"),
        };
        let held = accounts.clone();
        let body = Action::read(&accounts).body(move |action| {
            numbers.next()?;
            action.tx().get(&held, 1).map(drop)
        });
        let procedure = db.register(ProcedureDefinition::new("p").phase([body])).expect("it is taken");
        db.call(&procedure, args![]).expect("it commits");
    }
}
