//! The options of `bookings`.

use clap::Args;
use heddle_workloads::bookings::Bookings;
use heddle_workloads::pause::Pause;

use super::options::CommonOptions;
use super::workloads::Plan;
use crate::failure::Result;

pub const BOOKINGS_EXAMPLES: &str = "\
Examples:
  heddle bench bookings --schedule predict --threads 8 --think-us 100
  heddle bench bookings --schedule random --threads 8 --think-us 100     what is retried without prediction
  heddle bench bookings --schedule predict --keys-only --threads 8       the keys alone predict nothing
  heddle bench bookings --tour-percent 0 --longest-stay 30               only intervals conflict";

/// Options of `bookings`.
#[derive(Args)]
pub struct BookingsArguments {
    /// Number of nights
    #[arg(long, value_name = "N", default_value_t = Bookings::default().nights)]
    nights: u32,
    /// The most nights of a stay
    #[arg(long, value_name = "N", default_value_t = Bookings::default().longest_stay)]
    longest_stay: u32,
    /// Number of guides
    #[arg(long, value_name = "N", default_value_t = Bookings::default().guides)]
    guides: u32,
    /// Zipf exponent: the k-th most popular first night or guide is chosen in proportion to 1 / k^A; 0: no differences
    #[arg(long, visible_alias = "theta", value_name = "A", default_value_t = Bookings::default().alpha)]
    alpha: f64,
    /// Percentage of tours among the transactions; the others are stays
    #[arg(long, value_name = "P", default_value_t = Bookings::default().tour_percent)]
    tour_percent: f64,
    /// Declare neither intervals nor inserted values, so that the schedule knows keys only
    #[arg(long)]
    keys_only: bool,
    #[command(flatten)]
    common: CommonOptions,
}

impl BookingsArguments {
    /// Puts the options together, and refuses what does not fit.
    pub fn plan(&self) -> Result<Plan> {
        let options = self.common.clone();
        let workload = Bookings {
            nights: self.nights,
            longest_stay: self.longest_stay,
            guides: self.guides,
            alpha: self.alpha,
            tour_percent: self.tour_percent,
            declared: !self.keys_only,
            pause: Pause::microseconds(options.think_us),
        };
        let path = options.path(false)?;
        Ok(Plan::of_engine(workload, options, path))
    }
}
