//! Bodies with an error type of the application's own: it arrives as itself, and leaves no trace; conflicts are retried all the same.

use std::sync::atomic::{AtomicUsize, Ordering};

use heddledb::{
    Action, DataType, Database, Durability, Error, Options, ProcedureDefinition, ProtocolKind, Result,
    SequenceDefinition, Table, TableDefinition, args, row, set,
};

/// It hides the engine's error: nothing of it is to be seen from outside.
#[derive(Clone, Debug, PartialEq)]
enum Shop {
    SoldOut,
    Opaque(String),
}

impl From<Error> for Shop {
    fn from(error: Error) -> Shop {
        Shop::Opaque(error.to_string())
    }
}

impl std::fmt::Display for Shop {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, formatter)
    }
}

fn shop(protocol: ProtocolKind, stock: i64) -> (Database, Table) {
    let options = Options::default().durability(Durability::None).protocol(protocol);
    let db = Database::in_memory_with(options).expect("options are right");
    let definition =
        TableDefinition::new("item").column("id", DataType::Int64).column("stock", DataType::Int64);
    let items = db.create_table(definition.primary_key(["id"])).expect("a table");
    db.run(|tx| tx.insert(&items, row![1, stock])).expect("inserted");
    (db, items)
}

fn stock(db: &Database, items: &Table) -> i64 {
    db.run(|tx| tx.get(items, 1)?.expect("a row").int("stock")).expect("read")
}

#[test]
fn an_own_error_arrives_as_itself_and_leaves_no_trace() {
    for protocol in ProtocolKind::ALL {
        let (db, items) = shop(*protocol, 5);
        let failed: Result<(), Shop> = db.try_run(|tx| {
            tx.update(&items, 1, set! { stock: 0 })?;
            Err(Shop::SoldOut)
        });
        assert_eq!(failed, Err(Shop::SoldOut), "{protocol}");
        assert_eq!(stock(&db, &items), 5);
        let missing: Result<(), Shop> = db.try_run(|tx| Ok(tx.add(&items, 2, "stock", 1)?));
        assert!(matches!(missing, Err(Shop::Opaque(message)) if message.contains("no row")), "{protocol}");
        let panicked: Result<(), Shop> = db.try_run(|_| panic!("out of order"));
        assert!(matches!(panicked, Err(Shop::Opaque(message)) if message.contains("out of order")));
        assert_eq!(db.try_read(|_| Err::<(), Shop>(Shop::SoldOut)), Err(Shop::SoldOut));
    }
}

#[test]
fn an_error_of_an_earlier_attempt_is_not_reported() {
    let (db, items) = shop(ProtocolKind::Optimistic, 5);
    let mut attempts = 0;
    let result: Result<i64, Shop> = db.try_run(|tx| {
        attempts += 1;
        let stock = tx.get(&items, 1)?.expect("a row").int("stock")?;
        if attempts == 1 {
            // A rival changes what was read: this attempt's error is based on a state that has passed.
            std::thread::scope(|scope| {
                scope.spawn(|| db.run(|tx| tx.add(&items, 1, "stock", 1)).expect("added"));
            });
            return Err(Shop::SoldOut);
        }
        Ok(stock)
    });
    assert_eq!((result, attempts), (Ok(6), 2));
}

#[test]
fn conflicts_are_retried_though_the_error_type_hides_them() {
    for protocol in ProtocolKind::ALL {
        let (db, items) = shop(*protocol, 200);
        let sold = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let bought: Result<(), Shop> = db.try_run(|tx| {
                            let left = tx.get(&items, 1)?.ok_or(Shop::SoldOut)?.int("stock")?;
                            if left == 0 {
                                return Err(Shop::SoldOut);
                            }
                            Ok(tx.update(&items, 1, set! { stock: left - 1 })?)
                        });
                        match bought {
                            Ok(()) => sold.fetch_add(1, Ordering::Relaxed),
                            Err(Shop::SoldOut) => return,
                            Err(other) => panic!("{protocol}: {other}"),
                        };
                    }
                });
            }
        });
        assert_eq!((sold.into_inner(), stock(&db, &items)), (200, 0), "{protocol}");
    }
}

#[test]
fn a_sequence_that_needs_a_retry_gets_it() {
    let (db, items) = shop(ProtocolKind::Optimistic, 0);
    let numbers = db.create_sequence(SequenceDefinition::new("number").cache(2)).expect("a sequence");
    for expected in 1..=50 {
        let number: Result<i64, Shop> = db.try_run(|tx| {
            let number = numbers.next()?;
            tx.update(&items, 1, set! { stock: number })?;
            Ok(number)
        });
        assert_eq!(number, Ok(expected));
    }
    assert_eq!(stock(&db, &items), 50);
}

#[test]
fn sessions_keep_going_after_an_own_error() -> Result<()> {
    let (db, items) = shop(ProtocolKind::Optimistic, 5);
    let mut session = db.session()?;
    session.begin()?;
    session.run(|tx| tx.add(&items, 1, "stock", 1))?;
    let failed = session.try_run(|tx| {
        tx.add(&items, 1, "stock", 100)?;
        Err::<(), Shop>(Shop::SoldOut)
    });
    assert_eq!(failed, Err(Shop::SoldOut));
    session.commit()?;
    assert_eq!(stock(&db, &items), 6);
    Ok(())
}

#[test]
fn an_own_error_of_a_procedure_arrives_as_itself() {
    for protocol in ProtocolKind::ALL {
        let (db, items) = shop(*protocol, 1);
        let buy = Action::write(&items).key(|args, key| key.push(args.int(0)?)).body(|action| {
            match action.get()?.map(|item| item.int("stock")).transpose()? {
                None | Some(0) => Err(Error::application(Shop::SoldOut)),
                Some(left) => action.update(&[("stock", (left - 1).into())]),
            }
        });
        let definition = ProcedureDefinition::new("buy").parameter("id", DataType::Int64).phase([buy]);
        let buy = db.register(definition).expect("a procedure");
        assert!(db.try_call::<Shop>(&buy, args![1]).is_ok(), "{protocol}");
        assert_eq!(db.try_call(&buy, args![1]).err(), Some(Shop::SoldOut), "{protocol}");
        let error = db.call(&buy, args![1]).expect_err("sold out");
        assert_eq!(error.application_error::<Shop>(), Some(&Shop::SoldOut));
        assert_eq!((error.to_string().as_str(), error.sqlstate()), ("SoldOut", "P0001"));
        assert_eq!(error.application_error::<String>(), None);
        assert!(matches!(db.try_call(&buy, args![]), Err(Shop::Opaque(_))), "an error of the engine's");
        assert_eq!(stock(&db, &items), 0);
    }
}
