//! The options of `rubis`.

use clap::{Args, ValueEnum};
use heddle_workloads::pause::Pause;
use heddle_workloads::rubis::{Rubis, RubisMix};

use super::options::CommonOptions;
use super::workloads::Plan;
use crate::failure::Result;

pub const RUBIS_EXAMPLES: &str = "\
Examples:
  heddle bench rubis                                         RUBiS-B: most visitors browse
  heddle bench rubis --mix c --protocol phased --threads 8   RUBiS-C: half bid, on items that are popular
  heddle bench rubis --mix c --alpha 1.0 --verify-recovery";

/// A mix on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MixArgument {
    /// RUBiS-B: 15 % of the transactions write
    B,
    /// RUBiS-C: half of the transactions are bids
    C,
}

/// Options of `rubis`.
#[derive(Args)]
pub struct RubisArguments {
    /// The mix of transactions
    #[arg(long, value_enum, value_name = "MIX", default_value_t = MixArgument::B)]
    mix: MixArgument,
    /// Number of users
    #[arg(long, value_name = "N", default_value_t = Rubis::default().users)]
    users: u32,
    /// Number of items
    #[arg(long, value_name = "N", default_value_t = Rubis::default().items)]
    items: u32,
    /// Zipf exponent: the k-th most popular item is chosen in proportion to 1 / k^A; 0: all alike [default: 0, with --mix c 1.8]
    #[arg(long, visible_alias = "theta", value_name = "A")]
    alpha: Option<f64>,
    #[command(flatten)]
    common: CommonOptions,
}

impl RubisArguments {
    /// Puts the options together, and refuses what does not fit.
    pub fn plan(&self) -> Result<Plan> {
        let options = self.common.clone();
        let mix = match self.mix {
            MixArgument::B => RubisMix::Bidding,
            MixArgument::C => RubisMix::Contended,
        };
        let workload = Rubis {
            users: self.users,
            items: self.items,
            mix,
            alpha: self.alpha.unwrap_or(mix.alpha()),
            pause: Pause::microseconds(options.think_us),
        };
        let path = options.path(false)?;
        Ok(Plan::of_engine(workload, options, path))
    }
}
