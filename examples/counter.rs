//! Counters that every click raises: additions return nothing, so they never conflict; under `phased` the hot one is split over
//! the threads. A procedure counts without a closure.
//!
//! ```sh
//! cargo run -p heddledb --example counter
//! ```

use heddledb::{
    Action, DataType, Database, Durability, Options, ProcedureDefinition, ProtocolKind, Result, Table, args,
};

#[derive(Table)]
struct Page {
    #[table(key)]
    path: String,
    views: i64,
    last_visitor: Option<i64>,
}

fn main() -> Result<()> {
    let db = Database::in_memory_with(
        Options::default().durability(Durability::None).protocol(ProtocolKind::Phased),
    )?;
    let pages = db.table_of::<Page>()?;
    db.run(|tx| {
        for path in ["/", "/about"] {
            tx.insert(&pages, &Page { path: path.to_string(), views: 0, last_visitor: None })?;
        }
        Ok(())
    })?;
    // It declares the row that it touches, so that the engine finds it before the body runs.
    let view = db.register(
        ProcedureDefinition::new("view")
            .parameter("path", DataType::Text)
            .parameter("visitor", DataType::Int64)
            .phase([Action::commute(&pages).key(|args, key| key.push(args.text(0)?)).body(|action| {
                action.add("views", 1)?;
                action.max("last_visitor", action.args().int(1)?)
            })]),
    )?;
    let counted: Result<()> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_i64)
            .map(|thread| {
                let (db, view) = (&db, &view);
                scope.spawn(move || {
                    (0..500_i64).try_for_each(|click| {
                        let path = if click % 10 == 0 { "/about" } else { "/" };
                        db.call(view, args![path, thread * 500 + click]).map(drop)
                    })
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(heddledb::fail("a thread panicked"))))
    });
    counted?;
    for page in db.read(|snapshot| snapshot.scan(&pages, ..)?.collect::<Result<Vec<Page>>>())? {
        println!("{}: {} views, the last by {:?}", page.path, page.views, page.last_visitor);
        assert_eq!(page.views, if page.path == "/" { 1_800 } else { 200 });
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
