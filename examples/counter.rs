//! Counters that every click raises: additions return nothing, so they never conflict; under `phased` the hot one is split over
//! the threads. A procedure counts without a closure.
//!
//! ```sh
//! cargo run -p heddledb --example counter
//! ```

use heddledb::{
    Action, Composite, Database, Durability, Options, ProcedureDefinition, ProtocolKind, Result, Table,
};

#[derive(Table)]
struct Page {
    #[table(key)]
    path: String,
    views: i64,
    last_visitor: Option<i64>,
}

/// The parameters of the procedure `view`.
#[derive(Composite)]
struct View {
    path: String,
    visitor: i64,
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
    let view = db.register(ProcedureDefinition::new("view").phase([
        Action::commute(&pages).with::<View>().key(|view, key| key.push(view.path)).body(|view, action| {
            action.add("views", 1)?;
            action.max("last_visitor", view.visitor)
        }),
    ]))?;
    let counted: Result<()> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_i64)
            .map(|thread| {
                let (db, view) = (&db, &view);
                scope.spawn(move || {
                    (0..500_i64).try_for_each(|click| {
                        let path = if click % 10 == 0 { "/about" } else { "/" };
                        let args = View { path: path.to_string(), visitor: thread * 500 + click };
                        db.call(view, args).map(drop)
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
