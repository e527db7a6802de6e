//! The callers: which transaction, of which customers, over which amount.

use heddledb::{Database, Procedure};

use super::tables::Tables;
use super::{SmallBank, procedure, transaction};
use crate::Result;
use crate::calls::{Call, Calls};
use crate::mix::Mix;
use crate::workload::{Bound, Generator, random_of};

/// The benchmark on an open database.
pub(super) struct Bank {
    settings: SmallBank,
    /// One list for each caller: clients' calls count handles, and would hand a shared one's count to and fro.
    procedures: Vec<Vec<Procedure>>,
}

impl Bank {
    pub fn bind(settings: SmallBank, db: &Database, callers: usize) -> Result<Self> {
        let tables = Tables::open(db)?;
        let procedures = (0..callers.max(1)).map(|_| procedure::register_all(db, &tables, settings.pause));
        Ok(Self { settings, procedures: procedures.collect::<Result<_, _>>()? })
    }
}

impl Bound for Bank {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        Ok(Box::new(Caller {
            procedures: self.procedures[caller % self.procedures.len()].clone(),
            customers: i64::from(self.settings.accounts),
            hot: i64::from(self.settings.hot),
            hot_below: if self.settings.hot == 0 {
                0
            } else {
                (self.settings.hot_percent / 100.0 * 2_f64.powi(64)) as u64
            },
            mix: self.settings.mix(),
            random: random_of(seed, caller),
        }))
    }

    fn acknowledgement(&self, _call: Call<'_>) -> Option<String> {
        None
    }
}

/// The calls of one caller.
struct Caller {
    procedures: Vec<Procedure>,
    customers: i64,
    hot: i64,
    /// A random number below it makes a choice in the hot spot.
    hot_below: u64,
    mix: Mix,
    random: fastrand::Rng,
}

impl Caller {
    #[inline]
    fn customer(&mut self) -> i64 {
        let is_hot = self.hot_below > 0 && self.random.u64(..) < self.hot_below;
        self.random.i64(1..=if is_hot { self.hot } else { self.customers })
    }

    #[inline]
    fn add(&mut self, calls: &mut Calls) {
        let place = self.mix.choose(&mut self.random);
        let customer = self.customer();
        let (marks, second) = match place {
            transaction::AMALGAMATE => {
                let mut other = self.customer();
                while other == customer {
                    other = self.customer();
                }
                (3, other)
            }
            transaction::BALANCE => (0, 0),
            transaction::TRANSACT_SAVINGS => (1, self.random.i64(-10_000..=10_000)),
            _ => (1, self.random.i64(1..=10_000)),
        };
        calls.add_integers(place, marks, &[customer, second]);
    }
}

impl Generator for Caller {
    fn procedures(&self) -> &[Procedure] {
        &self.procedures
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        while calls.len() < at_most {
            self.add(calls);
        }
        Ok(true)
    }
}
