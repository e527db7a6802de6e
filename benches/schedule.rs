//! The cost of placing a call: the references of a TPC-C new order, collected from its footprint, and the
//! decision of each of the sixteen policies.
//!
//! `cargo bench --bench schedule`. History and State are filled by real calls first, which conflict. Measured are groups of
//! 64 different orders, so that reading the clock costs next to nothing; reported are the median group and the mean, per order.
//! Names of policies behind `--` choose among them.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    Action, Args, DataType, Database, Durability, Options, Placing, Policy, PredictOptions, Procedure,
    ProcedureDefinition, Result, Retry, Table, TableDefinition, Value, row,
};

const WAREHOUSES: i64 = 19;
const DISTRICTS: i64 = 10;
const ITEMS: i64 = 100_000;
/// Lines of an order.
const LINES: usize = 10;
/// Workers, and so queues.
const WORKERS: usize = 20;
/// Orders of a group that is measured as one.
const GROUP: usize = 64;
const GROUPS: usize = 2_000;

fn main() -> Result<()> {
    println!("{:<34} {:>10} {:>10} {:>17} {:>17}", "", "references", "known to", "collect, ns", "decide, ns");
    println!(
        "{:<34} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8}",
        "policy", "of a call", "the State", "median", "mean", "median", "mean"
    );
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let is_chosen = |policy: &Policy| chosen.is_empty() || chosen.contains(&policy.to_string());
    for policy in Policy::ALL.into_iter().filter(is_chosen) {
        let Cost { references, known, collect, decide } = measure(policy)?;
        let times = [collect.0, collect.1, decide.0, decide.1].map(|time| format!("{time:>8.0}")).join(" ");
        println!("{:<34} {references:>10} {known:>10} {times}", policy.to_string());
    }
    Ok(())
}

/// The cost of placing a call; times in nanoseconds, median and mean.
struct Cost {
    references: usize,
    known: u64,
    collect: (f64, f64),
    decide: (f64, f64),
}

fn measure(policy: Policy) -> Result<Cost> {
    let options = Options::default()
        .durability(Durability::None)
        .schedule(PredictOptions::default().policy(policy).history_seconds(0.5))
        .retry(Retry::Immediate)
        .workers(WORKERS);
    let db = Database::in_memory_with(options)?;
    let order = orders(&db)?;
    let mut random = fastrand::Rng::with_seed(7);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1_000) {
        let calls: Vec<_> =
            (0..200).map(|_| db.submit(&order, arguments(&mut random))).collect::<Result<_>>()?;
        calls.into_iter().try_for_each(|call| call.wait().map(|_| ()))?;
    }
    let placings = (0..GROUP * 64).map(|_| db.placing(&order, arguments(&mut random)));
    let mut placings: Vec<Placing> = placings.collect::<Result<_>>()?;
    let references = placings[0].collect()?;
    let known = db.schedule().map_or(0, |schedule| schedule.state_references);
    let collect = times(&mut placings, |one| {
        black_box(one.collect().is_ok());
    });
    let decide = times(&mut placings, |one| {
        black_box(one.decide());
    });
    Ok(Cost { references, known, collect, decide })
}

/// The median of all groups, and their mean, for one order of a group.
fn times(placings: &mut [Placing], mut each: impl FnMut(&mut Placing)) -> (f64, f64) {
    let groups = placings.len() / GROUP;
    let mut times: Vec<Duration> = (0..GROUPS)
        .map(|number| {
            let group = &mut placings[number % groups * GROUP..][..GROUP];
            // In the engine, too, who decides has just collected the references.
            group.iter_mut().for_each(|one| drop(one.collect()));
            let begin = Instant::now();
            group.iter_mut().for_each(&mut each);
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    let of_one = |group: Duration| group.as_nanos() as f64 / GROUP as f64;
    (of_one(times[GROUPS / 2]), of_one(times.iter().sum::<Duration>() / GROUPS as u32))
}

/// A table whose key columns are integers that reference these tables.
fn table(db: &Database, name: &str, columns: &[(&str, Option<&str>)], key: usize) -> Result<Table> {
    let mut definition = TableDefinition::new(name);
    for (column, references) in columns {
        definition = definition.column(*column, DataType::Int64);
        if let Some(references) = references {
            definition = definition.references(*references);
        }
    }
    db.create_table(definition.primary_key(columns[..key].iter().map(|(name, _)| *name)))
}

/// The actions of a new order, as far as the scheduler sees them; only the district is changed.
fn orders(db: &Database) -> Result<Procedure> {
    let (w, d) = (Some("warehouse"), Some("district"));
    let warehouse = table(db, "warehouse", &[("w_id", None)], 1)?;
    let district = table(db, "district", &[("d_w_id", w), ("d_id", None), ("d_next", None)], 2)?;
    let customer = table(db, "customer", &[("c_w_id", w), ("c_d_id", d), ("c_id", None)], 3)?;
    let item = table(db, "item", &[("i_id", None)], 1)?;
    let stock = table(db, "stock", &[("s_w_id", w), ("s_i_id", Some("item"))], 2)?;
    let orders = table(db, "orders", &[("o_w_id", w), ("o_d_id", d), ("o_id", None)], 3)?;
    let new_order = table(db, "new_order", &[("no_w_id", w), ("no_d_id", d), ("no_o_id", None)], 3)?;
    let line =
        table(db, "order_line", &[("ol_w_id", w), ("ol_d_id", d), ("ol_o_id", None), ("ol_n", None)], 4)?;
    db.run(|tx| {
        for w in 1..=WAREHOUSES {
            (1..=DISTRICTS).try_for_each(|d| tx.insert(&district, row![w, d, 0]))?;
        }
        Ok(())
    })?;
    let next = district.column("d_next")?;
    let first = |table: &Table, columns: usize| {
        Action::write(table)
            .key(move |args, key| (0..columns).try_for_each(|place| key.push(args.int(place)?)))
            .body(|_| Ok(()))
    };
    let take =
        Action::write(&district).key(|args, key| (0..2).try_for_each(|place| key.push(args.int(place)?)));
    let take = take.body(move |action| {
        let now = action.get()?.map_or(Ok(0), |row| row.int(next))?;
        thread::sleep(Duration::from_micros(50));
        action.update(&[(next, (now + 1).into())])
    });
    let items = Action::read(&item)
        .each(|_| Ok(LINES), |args, line, key| key.push(args.int(3 + line)?))
        .body(|_, _| Ok(()));
    let stocks = Action::write(&stock)
        .each(
            |_| Ok(LINES),
            |args, line, key| {
                key.push(args.int(0)?)?;
                key.push(args.int(3 + line)?)
            },
        )
        .body(|_, _| Ok(()));
    let definition = (0..3 + LINES).fold(ProcedureDefinition::new("new-order"), |definition, number| {
        definition.parameter(format!("p{number}"), DataType::Int64)
    });
    let all = [take, first(&warehouse, 1), first(&customer, 3), items, stocks];
    let inserts = [first(&orders, 2), first(&new_order, 2), first(&line, 2)];
    db.register(definition.phase(all).phase(inserts))
}

fn arguments(random: &mut fastrand::Rng) -> Args {
    let places = [random.i64(1..=WAREHOUSES), random.i64(1..=DISTRICTS), random.i64(1..=3_000)];
    let items = (0..LINES).map(|_| random.i64(1..=ITEMS)).collect::<Vec<_>>();
    places.into_iter().chain(items).map(Value::from).collect()
}
