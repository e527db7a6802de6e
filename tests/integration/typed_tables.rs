//! Rows as structs: what goes in comes out, and what does not fit the table is refused.

use heddledb::{
    Action, DataType, Database, Date, Decimal, Error, ForeignKey, ProcedureDefinition, Range, Result, Table,
    TableChange, TableDefinition, TableOf, TableRow, Timestamp, TopK, Uuid, args, key, row, set,
};

#[derive(Clone, Debug, PartialEq, Table)]
#[table(name = "orders", index(by_customer(customer, day)), check(sensible = "amount >= 0"), routing(shop))]
struct Order {
    #[table(key)]
    shop: i32,
    #[table(key)]
    id: i64,
    #[table(references = "customer")]
    customer: u32,
    day: Date,
    #[table(data_type = "decimal(12, 2)")]
    amount: Decimal,
    #[table(default = "open", index)]
    state: String,
    #[table(unique)]
    code: Option<Uuid>,
    shipped: Option<Timestamp>,
    #[table(default = 0, check = "parcels < 100")]
    parcels: u8,
}

fn order(shop: i32, id: i64) -> Order {
    Order {
        shop,
        id,
        customer: 7,
        day: Date::MIN,
        amount: "19.90".parse().expect("a number"),
        state: "open".to_string(),
        code: None,
        shipped: None,
        parcels: 1,
    }
}

fn database() -> (Database, TableOf<Order>) {
    let db = Database::in_memory().expect("a database");
    let orders = db.table_of::<Order>().expect("a table");
    (db, orders)
}

#[test]
fn the_definition_is_what_the_attributes_say() -> Result<()> {
    let expected = TableDefinition::new("orders")
        .column("shop", DataType::Int32)
        .not_null()
        .column("id", DataType::Int64)
        .not_null()
        .column("customer", DataType::Int64)
        .not_null()
        .references("customer")
        .column("day", DataType::Date)
        .not_null()
        .column_of("amount", "decimal(12,2)")
        .not_null()
        .column("state", DataType::Text)
        .not_null()
        .default("open")
        .column("code", DataType::Uuid)
        .column("shipped", DataType::Timestamp)
        .column("parcels", DataType::Int32)
        .not_null()
        .default(0)
        .primary_key(["shop", "id"])
        .index("by_customer", ["customer", "day"])
        .index("orders_state", ["state"])
        .unique_index("orders_code", ["code"])
        .check("sensible", "amount >= 0")
        .check("orders_parcels_check", "parcels < 100")
        .routing(["shop"]);
    assert_eq!(Order::definition(), expected);
    let (db, _) = database();
    assert!(db.open_table(expected).is_ok(), "it is the table that was created");
    Ok(())
}

#[test]
fn rows_come_out_as_they_went_in() -> Result<()> {
    let (db, orders) = database();
    let full = Order { code: Some(Uuid::from_bytes([1; 16])), shipped: Some(Timestamp::MAX), ..order(1, 2) };
    db.run(|tx| {
        tx.insert(&orders, &order(1, 1))?;
        tx.insert(&orders, &full)?;
        tx.insert(&orders, row![2, 1, 7, Date::MIN, 1, "dynamic", None::<Uuid>, None::<Timestamp>, 0])?;
        assert_eq!(tx.get(&orders, (1, 1))?, Some(order(1, 1)));
        assert_eq!(tx.get_for_update(&orders, key![1, 2])?, Some(full.clone()));
        assert_eq!(tx.get(&orders, (9, 9))?, None);
        Ok(())
    })?;
    let of_shop = |shop| db.run(|tx| tx.scan(&orders, shop)?.collect::<Result<Vec<Order>>>());
    assert_eq!(of_shop(1)?, [order(1, 1), full.clone()]);
    assert_eq!(of_shop(2)?[0].state, "dynamic");
    let read = db.read(|snapshot| {
        assert_eq!(snapshot.get(&orders, (1, 2))?, Some(full.clone()));
        let newest = snapshot.scan_index(&orders, "by_customer", Range::prefix(7).reverse().limit(1))?;
        newest.collect::<Result<Vec<Order>>>()
    })?;
    assert_eq!((read.len(), read[0].shop), (1, 2));
    let dynamic = db.table("orders")?;
    let shipped = db.run(|tx| tx.get(&dynamic, (1, 2))?.expect("a row").timestamp("shipped"))?;
    assert_eq!(shipped, Timestamp::MAX);
    let mut seen = Vec::new();
    db.run(|tx| {
        seen.clear();
        tx.get_each(&orders, [(1, 2), (3, 3)], |order| {
            seen.push(order.map(|order| order.id));
            Ok(())
        })
    })?;
    assert_eq!(seen, [Some(2), None]);
    Ok(())
}

#[test]
fn rows_are_updated_and_put_as_a_whole() -> Result<()> {
    let (db, orders) = database();
    let shipped = Order { shipped: Some(Timestamp::MIN), state: "shipped".into(), ..order(1, 1) };
    assert!(matches!(db.run(|tx| tx.update_row(&orders, &shipped)), Err(Error::MissingKey { .. })));
    assert!(db.run(|tx| tx.put(&orders, &order(1, 1)))?);
    assert!(!db.run(|tx| tx.put(&orders, &shipped))?);
    assert_eq!(db.run(|tx| tx.get(&orders, (1, 1)))?, Some(shipped));
    db.run(|tx| tx.update_row(&orders, &order(1, 1)))?;
    assert_eq!(db.run(|tx| tx.get(&orders, (1, 1)))?, Some(order(1, 1)));
    // By name, and by operation: a typed table is a table.
    db.run(|tx| {
        tx.update(&orders, (1, 1), set! { state: "paid" })?;
        tx.add(&orders, (1, 1), "parcels", 2)
    })?;
    let paid = db.run(|tx| tx.get(&orders, (1, 1)))?.expect("a row");
    assert_eq!((paid.state.as_str(), paid.parcels), ("paid", 3));
    assert!(db.run(|tx| tx.delete(&orders, (1, 1)))?);
    Ok(())
}

#[test]
fn what_the_table_refuses_is_refused() -> Result<()> {
    let (db, orders) = database();
    let insert = |order: &Order| db.run(|tx| tx.insert(&orders, order));
    let code = Some(Uuid::from_bytes([1; 16]));
    insert(&Order { code, ..order(1, 1) })?;
    let again = insert(&order(1, 1));
    assert!(matches!(again, Err(Error::DuplicateKey { .. })));
    assert!(matches!(insert(&Order { code, ..order(1, 2) }), Err(Error::DuplicateKey { .. })));
    let negative = insert(&Order { amount: Decimal::from(-1), ..order(1, 2) });
    assert!(matches!(negative, Err(Error::CheckViolation { constraint, .. }) if constraint == "sensible"));
    let many = insert(&Order { parcels: 100, ..order(1, 2) });
    assert!(matches!(many, Err(Error::CheckViolation { .. })));
    let inexact = insert(&Order { amount: "0.001".parse()?, ..order(1, 2) });
    assert!(matches!(inexact, Err(Error::Inexact { .. })));
    // A value that the struct cannot hold, written through the dynamic interface.
    db.run(|tx| tx.update(&orders, (1, 1), set! { parcels: -1 }))?;
    let error = db.run(|tx| tx.get(&orders, (1, 1))).expect_err("-1 is no u8").to_string();
    assert!(error.contains("parcels") && error.contains("-1"), "{error}");
    Ok(())
}

#[test]
fn a_changed_table_is_looked_at_again() -> Result<()> {
    let (db, orders) = database();
    db.run(|tx| tx.insert(&orders, &order(1, 1)))?;
    // Another column behind the struct's: rows are read as before, and inserted with their values for all columns only.
    db.change_table("orders", TableChange::new().add_column("note", DataType::Text, heddledb::Value::Null))?;
    assert_eq!(db.run(|tx| tx.get(&orders, (1, 1)))?, Some(order(1, 1)));
    db.run(|tx| tx.update_row(&orders, &Order { parcels: 5, ..order(1, 1) }))?;
    assert!(matches!(db.run(|tx| tx.insert(&orders, &order(1, 2))), Err(Error::WrongRow { .. })));
    // A column of the struct's gone: nothing is read or written at the wrong place.
    db.change_table("orders", TableChange::new().drop_column("customer"))?;
    for refused in [
        db.run(|tx| tx.get(&orders, (1, 1)).map(drop)),
        db.run(|tx| tx.insert(&orders, &order(1, 2))),
        db.run(|tx| tx.update_row(&orders, &order(1, 1))),
        db.read(|snapshot| snapshot.get(&orders, (1, 1)).map(drop)),
    ] {
        assert!(matches!(refused, Err(Error::TableDiffers { .. })), "{refused:?}");
    }
    assert!(matches!(db.table_of::<Order>(), Err(Error::TableDiffers { .. })));
    assert!(matches!(db.table("orders")?.rows_of::<Order>(), Err(Error::TableDiffers { .. })));
    Ok(())
}

#[test]
fn structs_of_one_type_work_in_several_databases() -> Result<()> {
    let databases: Vec<_> = (0..3).map(|_| database()).collect();
    for round in 1..=2 {
        for (number, (db, orders)) in databases.iter().enumerate() {
            let order = order(number as i32, round);
            db.run(|tx| tx.insert(orders, &order))?;
            assert_eq!(db.run(|tx| tx.get(orders, (number, round)))?, Some(order));
        }
    }
    let foreign = databases[0].0.run(|tx| tx.get(&databases[1].1, (1, 1)));
    assert!(matches!(foreign, Err(Error::ForeignTable { .. })));
    Ok(())
}

#[derive(Debug, PartialEq, Table)]
#[table(hash)]
struct Game {
    #[table(key)]
    r#type: String,
    #[table(data_type = "top_k(2; int64; text)")]
    best: Option<TopK>,
    plays: i64,
    rating: Option<f64>,
    picture: Vec<u8>,
    is_free: bool,
}

#[test]
fn procedures_and_sessions_read_structs() -> Result<()> {
    let db = Database::in_memory()?;
    let games = db.table_of::<Game>()?;
    assert_eq!(games.name(), "game");
    let game = Game {
        r#type: "go".into(),
        best: None,
        plays: 0,
        rating: Some(0.5),
        picture: vec![0, 1],
        is_free: true,
    };
    let mut session = db.session()?;
    session.begin()?;
    session.run(|tx| tx.insert(&games, &game))?;
    assert_eq!(session.run(|tx| tx.get(&games, "go"))?, Some(game));
    session.commit()?;
    let play = Action::write(&games).key(|args, key| key.push(args.text(0)?)).body(|action| {
        let game: Game = action.get()?.ok_or_else(|| heddledb::fail("no such game"))?.to()?;
        action.top_k_insert("best", &row![game.plays], &row!["Ada"])?;
        action.add("plays", 1)
    });
    let definition = ProcedureDefinition::new("play").parameter("type", DataType::Text).phase([play]);
    let play = db.register(definition)?;
    (0..3).try_for_each(|_| db.call(&play, args!["go"]).map(drop))?;
    let game = db.run(|tx| tx.get(&games, "go"))?.expect("a row");
    assert_eq!((game.plays, game.best.is_some()), (3, true));
    Ok(())
}

#[test]
fn a_definition_with_a_mistake_says_what_is_wrong() -> Result<()> {
    #[derive(Table)]
    #[allow(dead_code)]
    struct Wrong {
        #[table(key)]
        id: i64,
        #[table(data_type = "decimal(99, 2)")]
        price: Decimal,
    }
    let error = Database::in_memory()?.table_of::<Wrong>().expect_err("too many digits");
    assert_eq!(error.sqlstate(), "42704", "{error}");
    Ok(())
}

#[derive(Debug, Table)]
struct Parent {
    #[table(key)]
    id: i64,
}

#[derive(Debug, Table)]
struct Child {
    #[table(key)]
    id: i64,
    #[table(foreign_key = "parent")]
    parent: Option<i64>,
}

#[test]
fn a_foreign_key_of_a_field_is_enforced() -> Result<()> {
    let expected = TableDefinition::new("child")
        .column("id", DataType::Int64)
        .not_null()
        .column("parent", DataType::Int64)
        .primary_key(["id"])
        .foreign_key(ForeignKey::new("child_parent_fkey", ["parent"], "parent"));
    assert_eq!(Child::definition(), expected);
    let db = Database::in_memory()?;
    let unknown = db.table_of::<Child>().map(drop);
    assert!(
        matches!(unknown, Err(Error::InvalidDefinition { .. })),
        "its parent is opened first: {unknown:?}"
    );
    let (parents, children) = (db.table_of::<Parent>()?, db.table_of::<Child>()?);
    db.run(|tx| tx.insert(&parents, &Parent { id: 1 }))?;
    db.run(|tx| tx.insert(&children, &Child { id: 1, parent: Some(1) }))?;
    db.run(|tx| tx.insert(&children, &Child { id: 2, parent: None }))?;
    let missing = db.run(|tx| tx.insert(&children, &Child { id: 3, parent: Some(3) }));
    assert!(matches!(missing, Err(Error::NoReferencedRow { .. })), "{missing:?}");
    let used = db.run(|tx| tx.delete(&parents, 1));
    assert!(matches!(used, Err(Error::StillReferenced { .. })), "{used:?}");
    Ok(())
}

/// Types of the application's own as columns: an enum as text, one as integers, a struct around a value.
mod own_types {
    use heddledb::{ColumnValue, DataType, Database, Decimal, Error, Table, TableRow, key, set};

    #[derive(ColumnValue, Clone, Copy, Debug, PartialEq)]
    enum Status {
        Open,
        #[column(name = "sent out")]
        SentOut,
    }

    #[derive(ColumnValue, Clone, Copy, Debug, PartialEq)]
    #[column(integer)]
    enum Level {
        Low = 1,
        High = 10,
    }

    #[derive(ColumnValue, Clone, Debug, PartialEq)]
    struct Name(String);

    #[derive(ColumnValue, Clone, Copy, Debug, PartialEq)]
    struct Id(u64);

    #[derive(Table, Clone, Debug, PartialEq)]
    #[table(name = "task", unique(by_name(name)))]
    struct Task {
        #[table(key)]
        id: Id,
        name: Name,
        status: Status,
        #[table(index)]
        level: Option<Level>,
    }

    fn task(id: u64, name: &str) -> Task {
        Task { id: Id(id), name: Name(name.to_owned()), status: Status::SentOut, level: Some(Level::High) }
    }

    #[test]
    fn enums_and_structs_around_a_value_are_columns() {
        let types: Vec<_> =
            Task::definition().columns().iter().map(|column| column.data_type.clone()).collect();
        assert_eq!(types, [DataType::Int64, DataType::Text, DataType::Text, DataType::Int32]);
        let db = Database::in_memory().unwrap();
        let (tasks, plain) = (db.table_of::<Task>().unwrap(), "task");
        let low = Task { level: None, status: Status::Open, ..task(2, "b") };
        db.run(|tx| tx.insert(&tasks, &task(1, "a")).and_then(|()| tx.insert(&tasks, &low))).unwrap();
        assert_eq!(db.run(|tx| tx.get(&tasks, key![Id(2)])), Ok(Some(low)));
        let plain = db.table(plain).unwrap();
        let stored = db.run(|tx| {
            let row = tx.get(&plain, 1)?.expect("it is there");
            Ok((row.text("status")?.to_owned(), row.int("level")?))
        });
        assert_eq!(stored, Ok(("sent out".to_owned(), 10)));
        db.run(|tx| tx.update(&plain, 1, set! { status: Status::Open, level: Level::Low })).unwrap();
        assert_eq!(
            db.run(|tx| tx.get(&tasks, 1)).unwrap().map(|task| (task.status, task.level)),
            Some((Status::Open, Some(Level::Low)))
        );
        // What no variant stands for is an error that names the column.
        db.run(|tx| tx.update(&plain, 1, &[("status", "lost".into())])).unwrap();
        let error = db.run(|tx| tx.get(&tasks, 1)).unwrap_err();
        assert!(matches!(&error, Error::WrongRead { what, .. } if what == "task.status"), "{error}");
        assert!(error.to_string().contains("a Status"), "{error}");
    }

    #[test]
    fn a_row_is_found_by_a_unique_index() {
        let db = Database::in_memory().unwrap();
        let tasks = db.table_of::<Task>().unwrap();
        db.run(|tx| (1..5).try_for_each(|id| tx.insert(&tasks, &task(id, &format!("task {id}"))))).unwrap();
        assert_eq!(db.run(|tx| tx.get_by(&tasks, "by_name", key!["task 3"])), Ok(Some(task(3, "task 3"))));
        assert_eq!(db.run(|tx| tx.get_by(&tasks, "by_name", "nothing")), Ok(None));
        assert_eq!(db.snapshot().unwrap().get_by(&tasks, "by_name", "task 2"), Ok(Some(task(2, "task 2"))));
        let wrong = db.run(|tx| tx.get_by(&tasks, "task_level", 10)).unwrap_err();
        assert!(
            wrong.to_string().contains("task_level that is unique") && wrong.to_string().contains("by_name"),
            "{wrong}"
        );
        let wrong = db.run(|tx| tx.get_by(&tasks, "by_name", key!["task 1", 2])).unwrap_err();
        assert!(matches!(wrong, Error::WrongKey { given: 2, .. }), "{wrong}");
    }

    #[test]
    fn decimals_have_a_default_and_are_rounded() {
        assert_eq!(Decimal::default().to_string(), "0");
        let parsed = |text: &str| text.parse::<Decimal>().unwrap();
        for (text, scale, rounded) in [
            ("2.345", 2, "2.35"),
            ("-2.345", 2, "-2.35"),
            ("2.344", 2, "2.34"),
            ("9.99", 0, "10"),
            ("1.5", 3, "1.5"),
        ] {
            assert_eq!(parsed(text).round(scale).to_string(), rounded, "{text}");
        }
        assert_eq!((parsed("-1.5").abs(), parsed("0.00").is_zero()), (parsed("1.5"), true));
        assert_eq!([parsed("1.5"), parsed("2")].iter().sum::<Decimal>(), parsed("3.5"));
        assert_eq!([parsed("1.5"), parsed("2")].into_iter().product::<Decimal>(), parsed("3.0"));
    }
}
