//! The sale under every protocol, to the last piece; and that the check sees what does not agree.

use heddledb::{Durability, Options, ProtocolKind, ValueRef, key};

use super::*;
use crate::workload::next_calls;

fn small() -> FlashSale {
    FlashSale { items: 3, stock: 60, alpha: 1.0, ..FlashSale::default() }
}

fn loaded(settings: &FlashSale, protocol: ProtocolKind) -> (Database, Box<dyn Bound>) {
    let options = Options::default().durability(Durability::None).protocol(protocol);
    let db = Database::in_memory_with(options).unwrap();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 4).unwrap();
    (db, bound)
}

/// Makes calls on four threads; returns the numbers of committed orders and views, and of refused orders.
fn sell(db: &Database, bound: &dyn Bound, calls: usize) -> [u64; 3] {
    let work = |caller: usize| {
        let mut generator = bound.generator(7, caller).unwrap();
        let made = next_calls(generator.as_mut(), calls);
        let mut counts = [0; 3];
        for (procedure, args) in made.made() {
            match db.call(&generator.procedures()[*procedure], args.clone()) {
                Ok(_) => counts[*procedure] += 1,
                Err(error) => {
                    assert_eq!((bound.reason(&error).as_ref(), *procedure), ("sold-out", ORDER));
                    counts[2] += 1;
                }
            }
        }
        counts
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|caller| scope.spawn(move || work(caller))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).fold([0; 3], |mut all, counts| {
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
            all
        })
    })
}

#[test]
fn every_piece_is_sold_once_under_every_protocol() {
    for &protocol in ProtocolKind::ALL {
        let (db, bound) = loaded(&small(), protocol);
        let [orders, views, refused] = sell(&db, bound.as_ref(), 200);
        let name = protocol.name();
        assert!(refused > 0 && orders <= 180, "{name}: {orders} orders, {refused} refused");
        assert_eq!(small().marks(&db).unwrap(), orders + views, "{name}");
        assert_eq!(small().check(&db, Some(orders + views)), Ok(()), "{name}");
        let item = db.table(ITEM).unwrap();
        let popular =
            db.run(|tx| tx.get(&item, key![PopularKeys::new(3, 1.0).key_of(0)])?.unwrap().int("stock"));
        assert_eq!(popular, Ok(0), "{name}: it was sold out");
    }
}

#[test]
fn orders_of_a_later_run_have_other_names() {
    let (db, bound) = loaded(&FlashSale { stock: 10_000, ..small() }, ProtocolKind::Optimistic);
    for run in 1..=2_u64 {
        let again = small().bind(&db, 4).unwrap();
        let [orders, _, refused] = sell(&db, again.as_ref(), 50);
        assert!(orders > 0 && refused == 0, "run {run}");
        assert_eq!(small().check(&db, None), Ok(()));
    }
    drop(bound);
}

#[test]
fn acknowledged_orders_are_looked_for_in_the_ledger() {
    let (db, bound) = loaded(&small(), ProtocolKind::Optimistic);
    let mut generator = bound.generator(1, 0).unwrap();
    let made = next_calls(generator.as_mut(), 20);
    let mut keys = Vec::new();
    for place in 0..made.len() {
        let call = made.get(place).unwrap();
        db.call(&generator.procedures()[call.procedure], call.args.clone()).unwrap();
        keys.extend(bound.acknowledgement(call));
    }
    assert!(!keys.is_empty() && keys.len() < 20, "views leave no key");
    assert_eq!(small().check_acknowledged(&db, &keys), Ok(()));
    keys.push("1 999".to_owned());
    assert!(small().check_acknowledged(&db, &keys).unwrap_err().contains("1 999"));
}

#[test]
fn the_check_sees_what_does_not_agree() {
    type Change = fn(&heddledb::Tx<'_, '_>, &Tables) -> heddledb::Result<()>;
    let changes: [(Change, &str); 6] = [
        (|tx, tables| tx.add(&tables.item, key![2], "stock", -1), "does not add up"),
        (|tx, tables| tx.add(&tables.item, key![2], "orders", 1), "does not add up"),
        (
            |tx, tables| {
                tx.add(&tables.item, key![2], "stock", -1)?;
                tx.add(&tables.item, key![2], "orders", 1)
            },
            "item 2 has",
        ),
        (|tx, tables| tx.insert(&tables.ledger, row![900, 1, 9, 5]), "item 9"),
        (
            |tx, tables| {
                tx.top_k_insert(&tables.board, key![THE_BOARD], "largest", &row![9_999_999, 9, 9], &row![1])
            },
            "leaderboard",
        ),
        (|tx, tables| tx.add(&tables.item, key![1], "views", 1), "were committed"),
    ];
    for (change, words) in changes {
        let (db, bound) = loaded(&small(), ProtocolKind::Optimistic);
        let [orders, views, _] = sell(&db, bound.as_ref(), 10);
        let tables = Tables::open(&db).unwrap();
        db.run(|tx| change(tx, &tables)).unwrap();
        let wrong = small().check(&db, Some(orders + views)).unwrap_err();
        assert!(wrong.contains(words), "{wrong}");
    }
}

#[test]
fn stock_below_zero_is_refused_whatever_sets_it() {
    let (db, _bound) = loaded(&small(), ProtocolKind::Phased);
    let item = db.table(ITEM).unwrap();
    let refused = db.run(|tx| tx.update(&item, key![1], &[("stock", ValueRef::Int(-1))]));
    assert_eq!(refused.unwrap_err().sqlstate(), "23514");
}

#[test]
fn settings_out_of_range_are_refused() {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    for wrong in [FlashSale { items: 0, ..small() }, FlashSale { view_percent: 101.0, ..small() }] {
        assert!(wrong.load(&db).is_err());
    }
}
