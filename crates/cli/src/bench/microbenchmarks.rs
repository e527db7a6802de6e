//! The options of the small workloads: a call touches a few of many records, some more popular than others.

use clap::{Args, ValueEnum};
use heddle_workloads::incr::{AtomicCounters, Increment, Operation, Operations, Pattern};
use heddle_workloads::like::Like;
use heddle_workloads::pause::Pause;
use heddle_workloads::ycsb::Ycsb;

use super::options::CommonOptions;
use super::workloads::Plan;
use crate::failure::Result;

pub const INCR1_EXAMPLES: &str = "\
Examples:
  heddle bench incr1 --hot-percent 100 --durability none
  heddle bench incr1 --hot-percent 10 --rotate-seconds 5 --seconds 20    the hot key moves; throughput over time
  heddle bench incr1 --hot-percent 100 --protocol phased                 the hot key is split by itself
  heddle bench incr1 --hot-percent 100 --protocol phased --split incr1.value:1:add
  heddle bench incr1 --hot-percent 100 --rmw                             reads and writes, so that rivals conflict
  heddle bench incr1 --hot-percent 100 --operation top-k --protocol phased --json
  heddle bench incr1 --hot-percent 50 --rotate-operation --rotate-seconds 3 --seconds 18 --protocol phased
                                                                         the six operations on the hot key, in turn
  heddle bench incr1 --hot-percent 100 --contender atomic                what bounds every engine that locks";

pub const INCRZ_EXAMPLES: &str = "\
Examples:
  heddle bench incrz --alpha 1.4 --durability none
  heddle bench incrz --alpha 1.4 --protocol phased --json                which keys were split
  heddle bench incrz --alpha 0                                           all keys alike";

pub const LIKE_EXAMPLES: &str = "\
Examples:
  heddle bench like --durability none
  heddle bench like --alpha 1.4 --write-percent 10 --json                latencies of reads and likes apart
  heddle bench like --protocol phased --phase-ms 5                       readers of split pages wait about so long
  heddle bench like --alpha 0                                            all pages alike";

pub const YCSB_EXAMPLES: &str = "\
Examples:
  heddle bench ycsb --rmw --durability none                              half of 10 operations read, modify and write
  heddle bench ycsb --rmw --theta 0.99
  heddle bench ycsb --rmw --theta 0.99 --protocol locking
  heddle bench ycsb --read-percent 95 --value-size 100                   blind writes of 100 bytes";

/// Options of `incr1`.
#[derive(Args)]
pub struct Incr1Arguments {
    /// Number of keys, which begin at 1
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    keys: u32,
    /// Percentage of calls on the hot key, which is 1 at first; fractions allowed
    #[arg(long, value_name = "P", default_value_t = 10.0)]
    hot_percent: f64,
    /// Seconds of the measured time after which another key becomes the hot one; 0: never
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    rotate_seconds: f64,
    /// Read the value, add 1, and write it, instead of adding blindly
    #[arg(long, conflicts_with_all = ["operation", "rotate_operation", "contender"])]
    rmw: bool,
    /// Apply this operation to a column of its own, besides counting: max, min, ordered-put and top-k to one that is
    /// NULL at first [default: only count]
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["rotate_operation", "contender"])]
    operation: Option<OperationName>,
    /// Apply all operations in turn: the next one whenever --rotate-seconds are over; the hot key stays
    #[arg(long, requires = "rotate_seconds", conflicts_with = "contender")]
    rotate_operation: bool,
    /// Do the same calls outside of the engine; atomic: a plain atomic addition, no transactions, no log
    #[arg(long, value_enum, value_name = "NAME")]
    contender: Option<Contenders>,
    #[command(flatten)]
    common: CommonOptions,
}

/// The operations of `incr1`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OperationName {
    Add,
    Max,
    Min,
    Multiply,
    OrderedPut,
    TopK,
}

impl OperationName {
    fn operation(self) -> Operation {
        Operation::ALL[self as usize]
    }
}

/// Contenders that execute calls instead of the engine.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Contenders {
    Atomic,
}

/// Options of `incrz`.
#[derive(Args)]
pub struct IncrzArguments {
    /// Number of keys, which begin at 1
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    keys: u32,
    /// Zipf exponent: the k-th most popular key is chosen in proportion to 1 / k^A, and the first is 1; 0: all alike
    #[arg(long, visible_alias = "theta", value_name = "A", default_value_t = 1.0)]
    alpha: f64,
    /// Read the value, add 1, and write it, instead of adding blindly
    #[arg(long)]
    rmw: bool,
    #[command(flatten)]
    common: CommonOptions,
}

/// Options of `like`.
#[derive(Args)]
pub struct LikeArguments {
    /// Number of users
    #[arg(long, value_name = "N", default_value_t = Like::default().users)]
    users: u32,
    /// Number of pages
    #[arg(long, value_name = "N", default_value_t = Like::default().pages)]
    pages: u32,
    /// Zipf exponent: the k-th most popular page is chosen in proportion to 1 / k^A, and the first is 1; 0: all alike
    #[arg(long, visible_alias = "theta", value_name = "A", default_value_t = Like::default().alpha)]
    alpha: f64,
    /// Percentage of likes among the transactions; the others read
    #[arg(long, value_name = "P", default_value_t = Like::default().write_percent)]
    write_percent: f64,
    #[command(flatten)]
    common: CommonOptions,
}

/// Options of `ycsb`.
#[derive(Args)]
pub struct YcsbArguments {
    /// Number of records
    #[arg(long, value_name = "N", default_value_t = Ycsb::default().records)]
    records: u32,
    /// Operations of a transaction, each on another record
    #[arg(long, value_name = "N", default_value_t = Ycsb::default().operations)]
    ops: usize,
    /// Percentage of reads among the operations; the others write
    #[arg(long, value_name = "P", default_value_t = Ycsb::default().read_percent)]
    read_percent: f64,
    /// A write reads the record first, and writes what it computed from that; without it, writes are blind
    #[arg(long)]
    rmw: bool,
    /// Zipf exponent: the k-th most popular record is chosen in proportion to 1 / k^A; 0: all alike
    #[arg(long, visible_alias = "theta", value_name = "A", default_value_t = Ycsb::default().alpha)]
    alpha: f64,
    /// Bytes of a record's value; 8 is an integer
    #[arg(long, value_name = "N", default_value_t = Ycsb::default().value_size)]
    value_size: u32,
    #[command(flatten)]
    common: CommonOptions,
}

impl Incr1Arguments {
    /// Puts the options together, and refuses what does not fit.
    pub fn plan(&self) -> Result<Plan> {
        let mut options = self.common.clone();
        options.refuse_acknowledgements("incr1")?;
        options.shows_time |= self.rotate_seconds > 0.0;
        let pattern = Pattern::OneHot { percent: self.hot_percent, rotate_seconds: self.rotate_seconds };
        let pause = Pause::microseconds(options.think_us);
        let workload = Increment { keys: self.keys, pattern, read_modify_write: self.rmw, pause };
        let path = options.path(false)?;
        if self.operation.is_some() || self.rotate_operation {
            let operation = self.operation.map(OperationName::operation);
            return Ok(Plan::of_engine(Operations::new(workload, operation), options, path));
        }
        let Some(Contenders::Atomic) = self.contender else {
            return Ok(Plan::of_engine(workload, options, path));
        };
        let contender = Some(Box::new(AtomicCounters::new(workload)?) as _);
        Ok(Plan { workload: Box::new(workload), options, path, contender, analysts: 0, names: Vec::new() })
    }
}

impl IncrzArguments {
    /// Puts the options together, and refuses what does not fit.
    pub fn plan(&self) -> Result<Plan> {
        let options = self.common.clone();
        options.refuse_acknowledgements("incrz")?;
        let pause = Pause::microseconds(options.think_us);
        let pattern = Pattern::Zipf { alpha: self.alpha };
        let workload = Increment { keys: self.keys, pattern, read_modify_write: self.rmw, pause };
        let path = options.path(false)?;
        Ok(Plan::of_engine(workload, options, path))
    }
}

impl LikeArguments {
    /// Puts the options together, and refuses what does not fit.
    pub fn plan(&self) -> Result<Plan> {
        let options = self.common.clone();
        options.refuse_acknowledgements("like")?;
        let workload = Like {
            users: self.users,
            pages: self.pages,
            alpha: self.alpha,
            write_percent: self.write_percent,
            pause: Pause::microseconds(options.think_us),
        };
        let path = options.path(false)?;
        Ok(Plan::of_engine(workload, options, path))
    }
}

impl YcsbArguments {
    /// Puts the options together, and refuses what does not fit.
    pub fn plan(&self) -> Result<Plan> {
        let options = self.common.clone();
        options.refuse_acknowledgements("ycsb")?;
        let workload = Ycsb {
            records: self.records,
            operations: self.ops,
            read_percent: self.read_percent,
            read_modify_write: self.rmw,
            alpha: self.alpha,
            value_size: self.value_size,
            pause: Pause::microseconds(options.think_us),
        };
        let path = options.path(false)?;
        Ok(Plan::of_engine(workload, options, path))
    }
}
