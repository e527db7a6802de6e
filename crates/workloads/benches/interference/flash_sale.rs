//! One item that all customers want: `phased` beside `optimistic`, while stock lasts and when it is sold out.

use heddle_workloads::driver::Report;
use heddle_workloads::flash_sale::FlashSale;
use heddledb::{Database, Durability, ProtocolKind, key};

use crate::Result;
use crate::arguments::Arguments;
use crate::figures::{Asked, Figures, Rates};
use crate::load::{Load, Slices, of_protocol};

const PROTOCOLS: [ProtocolKind; 2] = [ProtocolKind::Optimistic, ProtocolKind::Phased];
const NAMES: [&str; 2] = ["optimistic", "phased"];
/// Calls between two looks at whether all is sold.
const CALLS: u64 = 250_000;

/// Arguments of both modes: the item's stock, and the percentage of page views among the calls.
struct Sale {
    stock: u32,
    view_percent: f64,
}

impl Sale {
    fn loads(&self, threads: usize) -> Result<[Load; 2]> {
        let load = |protocol| {
            let options = of_protocol(protocol, threads).durability(Durability::None);
            let sale = FlashSale {
                items: 1,
                stock: self.stock,
                view_percent: self.view_percent,
                ..FlashSale::default()
            };
            Load::new(Database::in_memory_with(options)?, sale, threads)
        };
        Ok([load(PROTOCOLS[0])?, load(PROTOCOLS[1])?])
    }
}

/// Refused orders, after the stock was sold to exactly zero.
pub fn sold_out(arguments: &mut Arguments) -> Result<Figures> {
    let slices = Slices::read(arguments, 6, 1.0)?;
    let sale = Sale {
        stock: arguments.get("stock", 1_000_000)?,
        view_percent: arguments.get("view-percent", 50.0)?,
    };
    let threads = arguments.get("threads", 8)?;
    arguments.finish()?;
    let mut loads = sale.loads(threads)?;
    for (load, name) in loads.iter_mut().zip(NAMES) {
        while load.run_calls(CALLS)?.failed == 0 {}
        check_sold_out(load, sale.stock, name)?;
    }
    let mut rates = Rates::default();
    for _ in 0..slices.rounds {
        for (kind, load) in loads.iter_mut().enumerate() {
            rates.push(kind, refusals(&load.run(slices.seconds)?)?);
        }
    }
    for (load, name) in loads.iter().zip(NAMES) {
        check_sold_out(load, sale.stock, name)?;
    }
    let mut figures = Figures::default();
    figures.add("stock, sold to exactly 0 by each", f64::from(sale.stock));
    let names = NAMES.map(|name| format!("{name}: refused orders"));
    figures.add_ratio([&names[0], &names[1]], &rates, Asked::AtLeast(0.8));
    Ok(figures)
}

/// Refused orders per second. No order may have been accepted.
fn refusals(report: &Report) -> Result<f64> {
    let [orders, ..] = &report.by_transaction[..] else { return Err("the report has no orders".into()) };
    if orders.committed > 0 || orders.failed_by_reason.keys().any(|reason| reason != "sold-out") {
        return Err(format!("after the end of the sale: {orders:?}").into());
    }
    Ok(orders.failed as f64 / report.seconds)
}

fn check_sold_out(load: &Load, stock: u32, name: &str) -> Result {
    load.check().map_err(|failure| format!("{name}: {failure}"))?;
    let item = load.db.table("sale_item")?;
    let (left, orders) = load.db.read(|snapshot| match snapshot.get(&item, key![1])? {
        Some(item) => Ok((item.int("stock")?, item.int("orders")?)),
        None => Ok((-1, -1)),
    })?;
    if (left, orders) == (0, i64::from(stock)) {
        return Ok(());
    }
    Err(format!("{name}: {left} are left and {orders} were ordered of {stock}, of which all were sold")
        .into())
}

/// Orders and views while stock lasts.
pub fn selling(arguments: &mut Arguments) -> Result<Figures> {
    let slices = Slices::read(arguments, 6, 1.0)?;
    let sale = Sale {
        stock: arguments.get("stock", 2_000_000_000)?,
        view_percent: arguments.get("view-percent", 50.0)?,
    };
    let threads = arguments.get("threads", 2)?;
    arguments.finish()?;
    let mut loads = sale.loads(threads)?;
    let mut rates = Rates::default();
    for _ in 0..slices.rounds {
        for (kind, load) in loads.iter_mut().enumerate() {
            let report = load.run(slices.seconds)?;
            if report.failed > 0 {
                return Err(format!(
                    "{}: {} orders were refused while stock lasts",
                    NAMES[kind], report.failed
                )
                .into());
            }
            rates.push(kind, report.throughput());
        }
    }
    for (load, name) in loads.iter().zip(NAMES) {
        load.check().map_err(|failure| format!("{name}: {failure}"))?;
    }
    let mut figures = Figures::default();
    let names = NAMES.map(|name| format!("{name}: orders and views"));
    figures.add_ratio([&names[0], &names[1]], &rates, Asked::AtLeast(1.5));
    Ok(figures)
}
