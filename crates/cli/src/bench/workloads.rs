//! The options of each workload.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use heddle_workloads::Workload;
use heddle_workloads::contender::Contender;
use heddle_workloads::debit_credit::DebitCredit;
use heddle_workloads::driver::CallPath;
use heddle_workloads::flights::Flights;
use heddle_workloads::pause::Pause;
use heddle_workloads::probe::Probe;
use heddledb::Stages;

use super::bookings::{BOOKINGS_EXAMPLES, BookingsArguments};
use super::checkpoints::When;
use super::flash_sale::{FLASH_SALE_EXAMPLES, FlashSaleArguments};
use super::microbenchmarks::{
    INCR1_EXAMPLES, INCRZ_EXAMPLES, Incr1Arguments, IncrzArguments, LIKE_EXAMPLES, LikeArguments,
    YCSB_EXAMPLES, YcsbArguments,
};
use super::oltp::{
    SMALLBANK_EXAMPLES, SmallBankArguments, TATP_EXAMPLES, TPCC_EXAMPLES, TatpArguments, TpccArguments,
};
use super::options::CommonOptions;
use super::processor;
use super::rubis::{RUBIS_EXAMPLES, RubisArguments};
use crate::failure::{Failure, Result};

/// A workload and its options.
#[derive(Subcommand)]
pub enum WorkloadArguments {
    /// The 1985 debit-credit benchmark: accounts, tellers, branches, history
    #[command(after_help = DEBIT_CREDIT_EXAMPLES)]
    DebitCredit(DebitCreditArguments),
    /// Twenty probes in key order, reading or updating (the serial protocol's own experiment)
    #[command(after_help = PROBE_EXAMPLES)]
    Probe(ProbeArguments),
    /// Real flights from a file: each row is one transaction over six tables
    #[command(after_help = FLIGHTS_EXAMPLES)]
    Flights(FlightsArguments),
    /// Add 1 to one of a million keys, of which one is hot
    #[command(after_help = INCR1_EXAMPLES)]
    Incr1(Incr1Arguments),
    /// Add 1 to one of a million keys, some more popular than others (Zipf)
    #[command(after_help = INCRZ_EXAMPLES)]
    Incrz(IncrzArguments),
    /// Users like pages, of which some are popular; others read how many likes a page has
    #[command(after_help = LIKE_EXAMPLES)]
    Like(LikeArguments),
    /// Stays of some nights and tours of a guide, whose conflicts only intervals and inserted values predict
    #[command(after_help = BOOKINGS_EXAMPLES)]
    Bookings(BookingsArguments),
    /// Items that are not oversold, orders that fail when they are sold out, page views, a leaderboard of orders
    #[command(after_help = FLASH_SALE_EXAMPLES)]
    FlashSale(FlashSaleArguments),
    /// An auction site: bids on popular items, comments, lists of the newest items (RUBiS, without its pages)
    #[command(after_help = RUBIS_EXAMPLES)]
    Rubis(RubisArguments),
    /// Operations on single records: reads, and writes that are blind or read first
    #[command(after_help = YCSB_EXAMPLES)]
    Ycsb(YcsbArguments),
    /// A register of mobile phones: seven short transactions, of which about a quarter fails (once TM1)
    #[command(after_help = TATP_EXAMPLES)]
    Tatp(TatpArguments),
    /// Customers with two accounts each, of whom fifty are hot
    #[command(name = "smallbank", after_help = SMALLBANK_EXAMPLES)]
    SmallBank(SmallBankArguments),
    /// A wholesaler's orders, payments and deliveries (TPC-C, without terminals)
    #[command(after_help = TPCC_EXAMPLES)]
    Tpcc(TpccArguments),
}

const DEBIT_CREDIT_EXAMPLES: &str = "\
Examples:
  heddle bench debit-credit                              workers make their own calls
  heddle bench debit-credit --clients 32                 32 clients, each waiting for its durable answer
  heddle bench debit-credit --preset tpk --rate 20000    the bank of 1988 under a fixed load
  heddle bench debit-credit --preset tpk --transactions 50000 --configuration a   its experiment, on one processor
  heddle bench debit-credit --preset tpc-b --branches 4  TPC-B
  heddle bench debit-credit --durability none            without a log
  heddle bench debit-credit --protocol serial            updates one after another";

const PROBE_EXAMPLES: &str = "\
Examples:
  heddle bench probe --clients 35 --update-percent 10
  heddle bench probe --clients 35 --update-percent 100 --protocol serial --variant naive
  heddle bench probe --clients 35 --update-percent 10 --protocol locking
  heddle bench probe --clients 35 --update-percent 2 --rate 5000";

const FLIGHTS_EXAMPLES: &str = "\
Examples:
  heddle bench flights --input flights.csv.gz --verify-recovery
  heddle bench flights --input flights.csv.gz --protocol phased --threads 8
  zcat flights.csv.gz | heddle bench flights --input - --reference data";

/// Options of `debit-credit`.
#[derive(Args)]
pub struct DebitCreditArguments {
    /// Branches of the bank, with 10 tellers each [default: 1]
    #[arg(long, value_name = "N")]
    branches: Option<u32>,
    /// Accounts of each branch [default: 100000]
    #[arg(long, value_name = "N")]
    accounts_per_branch: Option<u32>,
    /// Percentage of calls that give a wrong access code, and fail
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    bad_percent: f64,
    /// A known benchmark; tpk: 15 branches, 150 tellers, 15,000 accounts, groups of at most 200 or 5 ms; tpc-b: its
    /// transaction, which checks neither access code nor floor and returns the balance
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// TPK's layouts of threads, with checkpoints every 10,000 calls. a: one processor and three threads: input; execution,
    /// log and output; checkpoints. b: a thread for each stage. c: as b, and a follower, a process of its own, writes the
    /// checkpoints
    #[arg(long, value_enum)]
    configuration: Option<Configuration>,
    #[command(flatten)]
    common: CommonOptions,
}

/// Known sizes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Preset {
    Tpk,
    TpcB,
}

/// TPK's layouts of threads.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Configuration {
    A,
    B,
    C,
}

impl Configuration {
    /// Applies the configuration, except to options that were given by hand.
    fn apply(self, options: &mut CommonOptions) -> Result {
        match self {
            Configuration::A => {
                options.stages.get_or_insert(Stages::Single);
                if options.processor.is_none() {
                    options.processor = Some(processor::first()?);
                }
            }
            Configuration::B => {
                options.stages.get_or_insert(Stages::Staged);
            }
            Configuration::C => {
                options.stages.get_or_insert(Stages::Staged);
                options.checkpoints.follower |=
                    options.is_durable() && options.checkpoints.follower_socket.is_none();
            }
        }
        options.threads.get_or_insert(1);
        if options.clients == 0 && options.in_flight.is_none() {
            options.schedule.generators.get_or_insert(1);
        }
        if options.is_durable() {
            options.checkpoints.checkpoint.get_or_insert(When::Never);
            options.checkpoints.checkpoint_transactions.get_or_insert(TPK_CHECKPOINT_TRANSACTIONS);
        }
        Ok(())
    }
}

/// Number of transactions between two copies that TPK's checkpointer wrote.
const TPK_CHECKPOINT_TRANSACTIONS: u64 = 10_000;

/// Group limits of the preset: its largest group in configuration B, and a time to match today's disks.
const TPK_GROUP_SIZE: usize = 200;
const TPK_GROUP_MILLISECONDS: f64 = 5.0;

/// Options of `probe`.
#[derive(Args)]
pub struct ProbeArguments {
    /// Records of 64 bytes
    #[arg(long, value_name = "N", default_value_t = Probe::default().records)]
    records: u32,
    /// Percentage of transactions that update all that they probe
    #[arg(long, value_name = "P", default_value_t = Probe::default().update_percent)]
    update_percent: f64,
    /// Clients call through the queue instead of running closures on their own threads
    #[arg(long)]
    through_pipeline: bool,
    #[command(flatten)]
    common: CommonOptions,
}

/// Options of `flights`.
#[derive(Args)]
pub struct FlightsArguments {
    /// The file of flights, gzip or plain CSV; - is standard input
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Directory of airlines.csv, airports.csv and planes.csv [default: beside the input]
    #[arg(long, value_name = "DIR")]
    reference: Option<PathBuf>,
    #[command(flatten)]
    common: CommonOptions,
}

/// A run: its workload, options and contender.
pub struct Plan {
    /// The workload with its settings.
    pub workload: Box<dyn Workload>,
    /// The options that all workloads share, with what the workload makes of those left out.
    pub options: CommonOptions,
    /// The source of calls, and its settings.
    pub path: CallPath,
    /// The contender that executes the calls instead of the engine.
    pub contender: Option<Box<dyn Contender>>,
    /// Number of threads that ask queries alongside the load.
    pub analysts: usize,
    /// Options of the workload that only the command line knows: names of sizes and layouts.
    pub names: Vec<(&'static str, Option<String>)>,
}

impl Plan {
    /// A plan for the engine.
    pub fn of_engine(workload: impl Workload + 'static, options: CommonOptions, path: CallPath) -> Self {
        Plan { workload: Box::new(workload), options, path, contender: None, analysts: 0, names: Vec::new() }
    }

    /// The protocol or contender that isolates the calls.
    pub fn protocol(&self) -> &'static str {
        self.contender.as_ref().map_or_else(|| self.options.protocol.name(), |contender| contender.name())
    }
}

impl WorkloadArguments {
    /// Puts the options together, and refuses what does not fit.
    pub fn plan(&self) -> Result<Plan> {
        match self {
            WorkloadArguments::DebitCredit(arguments) => arguments.plan(),
            WorkloadArguments::Probe(arguments) => arguments.plan(),
            WorkloadArguments::Flights(arguments) => arguments.plan(),
            WorkloadArguments::Incr1(arguments) => arguments.plan(),
            WorkloadArguments::Incrz(arguments) => arguments.plan(),
            WorkloadArguments::Like(arguments) => arguments.plan(),
            WorkloadArguments::Bookings(arguments) => arguments.plan(),
            WorkloadArguments::FlashSale(arguments) => arguments.plan(),
            WorkloadArguments::Rubis(arguments) => arguments.plan(),
            WorkloadArguments::Ycsb(arguments) => arguments.plan(),
            WorkloadArguments::Tatp(arguments) => arguments.plan(),
            WorkloadArguments::SmallBank(arguments) => arguments.plan(),
            WorkloadArguments::Tpcc(arguments) => arguments.plan(),
        }
    }
}

impl DebitCreditArguments {
    fn plan(&self) -> Result<Plan> {
        let mut options = self.common.clone();
        let usual = match self.preset {
            None => DebitCredit::default(),
            Some(Preset::TpcB) if self.bad_percent > 0.0 => {
                return Err(Failure::Usage(
                    "--bad-percent is not for --preset tpc-b, which checks no access code".to_owned(),
                ));
            }
            Some(Preset::TpcB) => DebitCredit::tpc_b(),
            Some(Preset::Tpk) => {
                if options.is_durable() {
                    options.group_size.get_or_insert(TPK_GROUP_SIZE);
                    options.group_ms.get_or_insert(TPK_GROUP_MILLISECONDS);
                }
                DebitCredit::tpk()
            }
        };
        self.configuration.map_or(Ok(()), |configuration| configuration.apply(&mut options))?;
        let workload = DebitCredit {
            branches: self.branches.unwrap_or(usual.branches),
            accounts_per_branch: self.accounts_per_branch.unwrap_or(usual.accounts_per_branch),
            bad_percent: self.bad_percent,
            tpc_b: usual.tpc_b,
            pause: Pause::microseconds(options.think_us),
        };
        // The usual run shows that the books agree after recovery, too.
        options.verify_recovery |= options.is_durable();
        let path = options.path(false)?;
        let names = vec![("preset", name_of(self.preset)), ("configuration", name_of(self.configuration))];
        Ok(Plan { names, ..Plan::of_engine(workload, options, path) })
    }
}

/// The name by which a value was given on the command line.
fn name_of(value: Option<impl ValueEnum>) -> Option<String> {
    value?.to_possible_value().map(|value| value.get_name().to_owned())
}

impl ProbeArguments {
    fn plan(&self) -> Result<Plan> {
        if self.through_pipeline && self.common.clients == 0 {
            return Err(Failure::Usage(
                "--through-pipeline is for client threads; give --clients N".to_owned(),
            ));
        }
        let workload = Probe {
            records: self.records,
            update_percent: self.update_percent,
            pause: Pause::microseconds(self.common.think_us),
        };
        let options = self.common.clone();
        options.refuse_acknowledgements("probe")?;
        let path = options.path(!self.through_pipeline)?;
        Ok(Plan::of_engine(workload, options, path))
    }
}

impl FlightsArguments {
    fn plan(&self) -> Result<Plan> {
        let options = self.common.clone();
        if options.seconds.is_some() {
            return Err(Failure::Usage(
                "flights runs to the end of its input; leave out --seconds, or run a shorter file".to_owned(),
            ));
        }
        let pause = Pause::microseconds(options.think_us);
        let workload = Flights::from_input(&self.input, self.reference.as_deref(), pause)?;
        let path = options.path(false)?;
        Ok(Plan::of_engine(workload, options, path))
    }
}
