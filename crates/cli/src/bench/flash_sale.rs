//! The options of `flash-sale`, and the audit of its invariants while it runs.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use heddle_workloads::Workload;
use heddle_workloads::flash_sale::FlashSale;
use heddle_workloads::pause::Pause;
use heddledb::Database;

use super::beside::{Ended, beside};
use super::options::{CommonOptions, Interface};
use super::workloads::Plan;
use crate::failure::Result;

pub const FLASH_SALE_EXAMPLES: &str = "\
Examples:
  heddle bench flash-sale --protocol phased --threads 8
  heddle bench flash-sale --items 1 --stock 1000000 --protocol phased    one item, sold to exactly zero
  heddle bench flash-sale --items 1 --stock 0                            every order is refused
  heddle bench flash-sale --view-percent 0 --verify-recovery";

/// Pause between an audit and the next one.
const BETWEEN_AUDITS: Duration = Duration::from_secs(1);

/// Options of `flash-sale`.
#[derive(Args)]
pub struct FlashSaleArguments {
    /// Number of items
    #[arg(long, value_name = "N", default_value_t = FlashSale::default().items)]
    items: u32,
    /// Pieces of each item in stock when it is loaded
    #[arg(long, value_name = "N", default_value_t = FlashSale::default().stock)]
    stock: u32,
    /// Zipf exponent: the k-th most popular item is chosen in proportion to 1 / k^A; 0: all alike
    #[arg(long, visible_alias = "theta", value_name = "A", default_value_t = FlashSale::default().alpha)]
    alpha: f64,
    /// Percentage of page views among the transactions; the others are orders
    #[arg(long, value_name = "P", default_value_t = FlashSale::default().view_percent)]
    view_percent: f64,
    #[command(flatten)]
    common: CommonOptions,
}

impl FlashSaleArguments {
    /// Puts the options together, and refuses what does not fit.
    pub fn plan(&self) -> Result<Plan> {
        let options = self.common.clone();
        let workload = FlashSale {
            items: self.items,
            stock: self.stock,
            alpha: self.alpha,
            view_percent: self.view_percent,
            board: options.interface == Interface::Rust,
            pause: Pause::microseconds(options.think_us),
        };
        let path = options.path(false)?;
        Ok(Plan::of_engine(workload, options, path))
    }
}

/// Audits of a run: how many there were, and the first thing that was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audits {
    pub count: u64,
    pub wrong: Option<String>,
}

/// Does the work; if the workload is one that can be, it is audited beside it, on a new snapshot each second, and once at
/// the beginning.
///
/// # Errors
/// The system refuses the thread.
pub fn audited<T>(
    db: &Database,
    workload: &dyn Workload,
    work: impl FnOnce() -> T,
) -> Result<(T, Option<Audits>)> {
    if !workload.is_audited() {
        return Ok((work(), None));
    }
    let (done, audits) = beside("heddle-audit", |ended| audit_until(ended, db, workload), work)?;
    Ok((done, Some(audits)))
}

fn audit_until(ended: &Ended, db: &Database, workload: &dyn Workload) -> Audits {
    let mut audits = Audits::default();
    while !ended.is_set() {
        let wrong = workload.check(db, None).err();
        audits.count += 1;
        audits.wrong = audits.wrong.or_else(|| wrong.map(|wrong| format!("audit {}: {wrong}", audits.count)));
        let until = Instant::now() + BETWEEN_AUDITS;
        while let Some(left) = until.checked_duration_since(Instant::now())
            && !ended.is_set()
        {
            thread::park_timeout(left);
        }
    }
    audits
}
