//! The options of the benchmarks that represent whole applications: several tables, a mix of transactions.

use clap::{Args, ValueEnum};
use heddle_workloads::pause::Pause;
use heddle_workloads::smallbank::SmallBank;
use heddle_workloads::tatp::{self, Tatp};
use heddle_workloads::tpcc::{self, Tpcc};

use super::applicable::check_protocol;
use super::options::CommonOptions;
use super::partitions::Rows;
use super::workloads::Plan;
use crate::failure::Result;

pub const TATP_EXAMPLES: &str = "\
Examples:
  heddle bench tatp --durability none
  heddle bench tatp --only get-subscriber-data --threads 16
  heddle bench tatp --mix paper --subscribers 10000 --hot 20 --hot-percent 90
  heddle bench tatp --protocol partitioned --threads 8 --executors 8 --clients 32 --think-us 100 --shift-seconds 3 --seconds 8
                                                                         boundaries follow the load; with --boundaries fixed not
  heddle bench tatp --only update-by-number --probe-records 100          records that a secondary index finds";

pub const SMALLBANK_EXAMPLES: &str = "\
Examples:
  heddle bench smallbank --durability none
  heddle bench smallbank --threads 20 --think-us 100 --schedule predict  twenty overlap, on however few processors
  heddle bench smallbank --hot 0 --schedule predict                      without a hot spot
  heddle bench smallbank --only write-check --protocol locking";

pub const TPCC_EXAMPLES: &str = "\
Examples:
  heddle bench tpcc --durability none
  heddle bench tpcc --terminals any                                      each call at any warehouse, so that workers meet
  heddle bench tpcc --mix neworder-payment --remote-percent 100
  heddle bench tpcc --warehouses 4 --alpha 2 --protocol phased           some warehouses are busier than others
  heddle bench tpcc --only payment --warehouses 1 --items 1000
  heddle bench tpcc --warehouses 10 --analysts 1 --seconds 60            CH-benCHmark: 22 queries alongside the load
  heddle bench tpcc --mix neworder-payment --warehouses 19 --threads 19 --think-us 100 --retry immediate --schedule predict
  heddle bench tpcc --warehouses 20 --alpha 0.3 --shift-seconds 60 --seconds 180 --schedule predict";

/// Options of `tatp`.
#[derive(Args)]
pub struct TatpArguments {
    /// Number of subscribers
    #[arg(long, value_name = "N", default_value_t = Tatp::default().subscribers)]
    subscribers: u32,
    /// Shares of the transactions; spec: the specification's; paper: those of the conflict prediction paper
    #[arg(long, value_enum, default_value_t)]
    mix: TatpMix,
    /// Make one transaction only: get-subscriber-data, get-new-destination, get-access-data, update-subscriber-data,
    /// update-location, insert-call-forwarding, delete-call-forwarding; or update-by-number, which is in no mix
    #[arg(
        long,
        value_name = "TRANSACTION",
        value_parser = clap::builder::PossibleValuesParser::new(Tatp::TRANSACTIONS),
        hide_possible_values = true,
        conflicts_with = "mix"
    )]
    only: Option<String>,
    /// The first N subscribers are a hot spot; 0: no hot spot
    #[arg(long, value_name = "N", default_value_t = Tatp::default().hot)]
    hot: u32,
    /// Percentage of transactions on the hot spot, all its subscribers alike
    #[arg(long, value_name = "P", default_value_t = Tatp::default().hot_percent, requires = "hot")]
    hot_percent: f64,
    /// Seconds after which only subscribers of the first executor's range are chosen (the partitioned
    /// protocol) [default: never]
    #[arg(long, value_name = "S", default_value_t = Tatp::default().shift_seconds, hide_default_value = true)]
    shift_seconds: f64,
    /// Number of subscribers that update-by-number finds by their numbers, and updates
    #[arg(long, value_name = "N", default_value_t = Tatp::default().probe_records)]
    probe_records: u32,
    /// Placement of one subscriber's rows: together, at one executor, or apart, so that a call has parts (the
    /// partitioned protocol) [default: together]
    #[arg(long, value_enum, value_name = "HOW")]
    routing: Option<Rows>,
    #[command(flatten)]
    common: CommonOptions,
}

/// The mixes of `tatp`.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum TatpMix {
    #[default]
    Spec,
    Paper,
}

impl TatpArguments {
    /// Puts the options together, and refuses what does not fit.
    pub fn plan(&self) -> Result<Plan> {
        let mut options = self.common.clone();
        options.refuse_acknowledgements("tatp")?;
        options.shows_time |= self.shift_seconds > 0.0;
        options.shifts_after = (self.shift_seconds > 0.0).then_some(self.shift_seconds);
        check_protocol(&options, "--routing", self.routing.is_some(), "partitioned")?;
        let only =
            self.only.as_ref().and_then(|only| Tatp::TRANSACTIONS.iter().position(|name| name == only));
        let workload = Tatp {
            subscribers: self.subscribers,
            transactions: match (only, self.mix) {
                (Some(place), _) => tatp::Transactions::Only(place),
                (None, TatpMix::Spec) => tatp::Transactions::Specified,
                (None, TatpMix::Paper) => tatp::Transactions::Paper,
            },
            hot: self.hot,
            hot_percent: self.hot_percent,
            probe_records: self.probe_records,
            shift_seconds: self.shift_seconds,
            apart: self.routing == Some(Rows::Apart),
            pause: Pause::microseconds(options.think_us),
        };
        let path = options.path(false)?;
        Ok(Plan::of_engine(workload, options, path))
    }
}

/// Options of `smallbank`.
#[derive(Args)]
pub struct SmallBankArguments {
    /// Number of customers, with two accounts each
    #[arg(long, value_name = "N", default_value_t = SmallBank::default().accounts)]
    accounts: u32,
    /// Make one transaction only: amalgamate, balance, deposit-checking, transact-savings, write-check
    #[arg(
        long,
        value_name = "TRANSACTION",
        value_parser = clap::builder::PossibleValuesParser::new(SmallBank::TRANSACTIONS),
        hide_possible_values = true
    )]
    only: Option<String>,
    /// The first N customers are a hot spot; 0: no hot spot
    #[arg(long, value_name = "N", default_value_t = SmallBank::default().hot)]
    hot: u32,
    /// Percentage of transactions on the hot spot, all its customers alike
    #[arg(long, value_name = "P", default_value_t = SmallBank::default().hot_percent)]
    hot_percent: f64,
    #[command(flatten)]
    common: CommonOptions,
}

impl SmallBankArguments {
    /// Puts the options together, and refuses what does not fit.
    pub fn plan(&self) -> Result<Plan> {
        let options = self.common.clone();
        options.refuse_acknowledgements("smallbank")?;
        let only =
            self.only.as_ref().and_then(|only| SmallBank::TRANSACTIONS.iter().position(|name| name == only));
        let workload = SmallBank {
            accounts: self.accounts,
            only,
            hot: self.hot,
            hot_percent: self.hot_percent,
            pause: Pause::microseconds(options.think_us),
        };
        let path = options.path(false)?;
        Ok(Plan::of_engine(workload, options, path))
    }
}

/// Options of `tpcc`.
#[derive(Args)]
pub struct TpccArguments {
    /// Number of warehouses
    #[arg(long, value_name = "N", default_value_t = Tpcc::default().warehouses)]
    warehouses: u32,
    /// Number of items; the specification has 100,000
    #[arg(long, value_name = "N", default_value_t = Tpcc::default().items)]
    items: u32,
    /// Customers of each district, and its orders at first; the specification has 3,000
    #[arg(long, value_name = "N", default_value_t = Tpcc::default().customers)]
    customers: u32,
    /// Shares of the transactions; full: 45 new orders, 43 payments, 4 each of the others; neworder-payment: half each
    #[arg(long, value_enum, default_value_t)]
    mix: TpccMix,
    /// Make one transaction only: new-order, payment, order-status, delivery, stock-level
    #[arg(
        long,
        value_name = "TRANSACTION",
        value_parser = clap::builder::PossibleValuesParser::new(Tpcc::TRANSACTIONS),
        hide_possible_values = true,
        conflicts_with = "mix"
    )]
    only: Option<String>,
    /// Zipf exponent: the k-th most popular warehouse is chosen in proportion to 1 / k^A; 0: all alike
    #[arg(long, visible_alias = "theta", value_name = "A", default_value_t = Tpcc::default().alpha)]
    alpha: f64,
    /// Warehouses are alike for S seconds, then as --alpha says for S seconds, and then alike again [default: as --alpha says]
    #[arg(long, value_name = "S", default_value_t = Tpcc::default().shift_seconds, requires = "alpha", hide_default_value = true)]
    shift_seconds: f64,
    /// Percentage of payments by another warehouse's customer
    #[arg(long, value_name = "P", default_value_t = Tpcc::default().remote_percent)]
    remote_percent: f64,
    /// Origin of calls: home, each worker or client stays at its own warehouses, as the specification has it;
    /// any, each call is at any warehouse [default: home; with --alpha or --schedule: any]
    #[arg(long, value_enum, value_name = "WHERE")]
    terminals: Option<Terminals>,
    /// Placement of one warehouse's rows: together, at one executor, or apart, so that a call has parts (the
    /// partitioned protocol) [default: together]
    #[arg(long, value_enum, value_name = "HOW")]
    routing: Option<Rows>,
    /// Threads that ask CH-benCHmark's 22 queries on snapshots alongside the load, one after the other
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=256))]
    analysts: u16,
    #[command(flatten)]
    common: CommonOptions,
}

/// The origin of `tpcc`'s calls.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Terminals {
    Home,
    Any,
}

/// The mixes of `tpcc`.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum TpccMix {
    #[default]
    Full,
    #[value(name = "neworder-payment")]
    NewOrderAndPayment,
}

impl TpccArguments {
    /// Puts the options together, and refuses what does not fit.
    pub fn plan(&self) -> Result<Plan> {
        let options = self.common.clone();
        check_protocol(&options, "--routing", self.routing.is_some(), "partitioned")?;
        let only =
            self.only.as_ref().and_then(|only| Tpcc::TRANSACTIONS.iter().position(|name| name == only));
        let workload = Tpcc {
            warehouses: self.warehouses,
            items: self.items,
            customers: self.customers,
            transactions: match (only, self.mix) {
                (Some(place), _) => tpcc::Transactions::Only(place),
                (None, TpccMix::Full) => tpcc::Transactions::Full,
                (None, TpccMix::NewOrderAndPayment) => tpcc::Transactions::NewOrderAndPayment,
            },
            alpha: self.alpha,
            shift_seconds: self.shift_seconds,
            remote_percent: self.remote_percent,
            home: self.is_home(),
            apart: self.routing == Some(Rows::Apart),
            pause: Pause::microseconds(options.think_us),
        };
        let path = options.path(false)?;
        Ok(Plan { analysts: usize::from(self.analysts), ..Plan::of_engine(workload, options, path) })
    }

    /// A schedule has something to place only where calls for all warehouses meet.
    fn is_home(&self) -> bool {
        match self.terminals {
            Some(terminals) => terminals == Terminals::Home,
            None => self.alpha == 0.0 && !self.common.schedule.is_given(),
        }
    }
}
