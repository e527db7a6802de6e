//! TATP, the telecommunication benchmark (once TM1): a home location register, where the mobile phones of subscribers
//! are looked up and moved about.
//!
//! Four tables, seven transactions of one to four records, of which about a quarter asks for what is not there and
//! fails. Subscribers are chosen unevenly, as the specification has it, or with a hot spot besides. An eighth
//! transaction, of DORA's section 5.5, updates records that a secondary index finds; it is in no mix.
//!
//! | transaction | % | `paper` | rows |
//! | --- | --- | --- | --- |
//! | `get-subscriber-data` | 35 | 40 | a subscriber |
//! | `get-new-destination` | 10 | 3 | a facility, its call forwardings |
//! | `get-access-data` | 35 | 3 | an access information |
//! | `update-subscriber-data` | 2 | 10 | a subscriber, a facility |
//! | `update-location` | 14 | 40 | a subscriber, by number |
//! | `insert-call-forwarding` | 2 | 2 | a subscriber, by number; its facilities; a call forwarding |
//! | `delete-call-forwarding` | 2 | 2 | a subscriber, by number; a call forwarding |
//!
//! Invariants: every row belongs to a subscriber that is there, with values in their ranges; a subscriber's
//! place is one that was written to that very subscriber; its first bit is one that fits the data of one of its
//! facilities, because both are written together. As many call forwardings are there as were inserted and not deleted.

mod check;
#[cfg(test)]
mod executors_used;
mod generator;
mod load;
mod procedure;
mod shift;
mod tables;
#[cfg(test)]
mod tests;

use heddledb::Database;
use serde_json::json;

use crate::functions::{Argument, FunctionCall, Functions};
use crate::mix::Mix;
use crate::pause::Pause;
use crate::workload::{Bound, Workload, in_range};
use crate::{Error, Result};

/// The transactions, by their places.
pub(crate) mod transaction {
    pub const NAMES: [&str; 8] = [
        "get-subscriber-data",
        "get-new-destination",
        "get-access-data",
        "update-subscriber-data",
        "update-location",
        "insert-call-forwarding",
        "delete-call-forwarding",
        "update-by-number",
    ];
    pub const GET_SUBSCRIBER_DATA: usize = 0;
    pub const GET_NEW_DESTINATION: usize = 1;
    pub const GET_ACCESS_DATA: usize = 2;
    pub const UPDATE_SUBSCRIBER_DATA: usize = 3;
    pub const UPDATE_LOCATION: usize = 4;
    pub const INSERT_CALL_FORWARDING: usize = 5;
    pub const DELETE_CALL_FORWARDING: usize = 6;
    pub const UPDATE_BY_NUMBER: usize = 7;
}

/// The transactions that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transactions {
    /// The specification's mix.
    Specified,
    /// The mix of the conflict prediction paper: half of all transactions update.
    Paper,
    /// One of them alone, by its place in [`Tatp::TRANSACTIONS`].
    Only(usize),
}

/// The settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tatp {
    /// Number of subscribers.
    pub subscribers: u32,
    /// The transactions that are made.
    pub transactions: Transactions,
    /// Number of subscribers, from the first on, that are the hot spot; 0: no hot spot.
    pub hot: u32,
    /// Percentage of transactions on the hot spot.
    pub hot_percent: f64,
    /// Number of records that `update-by-number` finds.
    pub probe_records: u32,
    /// Seconds after which only subscribers of the first executor's range are chosen; 0: never.
    pub shift_seconds: f64,
    /// True if the rows of a subscriber are divided among executors.
    pub apart: bool,
    /// A pause after each access.
    pub pause: Pause,
}

impl Default for Tatp {
    fn default() -> Self {
        Self {
            subscribers: 100_000,
            transactions: Transactions::Specified,
            hot: 0,
            hot_percent: 0.0,
            probe_records: 1,
            shift_seconds: 0.0,
            apart: false,
            pause: Pause::NONE,
        }
    }
}

impl Tatp {
    /// The names of the transactions.
    pub const TRANSACTIONS: &[&str] = &transaction::NAMES;

    fn check_settings(&self) -> Result<()> {
        in_range("subscribers", self.subscribers, 1, 10_000_000)?;
        in_range("hot", self.hot, 0, self.subscribers)?;
        in_range("shift-seconds", self.shift_seconds, 0.0, 86_400.0)?;
        in_range("hot-percent", self.hot_percent, 0.0, 100.0)?;
        in_range("probe-records", self.probe_records, 1, self.subscribers.min(10_000))?;
        if self.hot_percent > 0.0 && self.hot == 0 {
            return Err(Error::Unusable("--hot-percent needs a hot spot; give --hot N".to_owned()));
        }
        match self.transactions {
            Transactions::Only(place) if place >= transaction::NAMES.len() => {
                Err(Error::Unusable(format!("there is no transaction number {place}")))
            }
            _ => Ok(()),
        }
    }

    fn mix(&self) -> Mix {
        match self.transactions {
            Transactions::Specified => Mix::of_shares(&[35, 10, 35, 2, 14, 2, 2]),
            Transactions::Paper => Mix::of_shares(&[40, 3, 3, 10, 40, 2, 2]),
            Transactions::Only(place) => Mix::only(place),
        }
    }

    fn counts_all_updates(&self) -> bool {
        self.transactions == Transactions::Only(transaction::UPDATE_BY_NUMBER)
    }
}

impl Workload for Tatp {
    fn name(&self) -> &'static str {
        "tatp"
    }

    fn tables(&self) -> &'static [&'static str] {
        &tables::NAMES
    }

    fn transactions(&self) -> &'static [&'static str] {
        Self::TRANSACTIONS
    }

    fn partition_key(&self) -> Option<&'static str> {
        Some("subscriber.s_id")
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        let (mix, only) = match self.transactions {
            Transactions::Specified => (Some("spec"), None),
            Transactions::Paper => (Some("paper"), None),
            Transactions::Only(place) => (None, transaction::NAMES.get(place)),
        };
        let mut parameters = vec![("subscribers", json!(self.subscribers))];
        parameters.extend(mix.map(|mix| ("mix", json!(mix))));
        parameters.extend(only.map(|only| ("only", json!(only))));
        if self.hot > 0 {
            parameters.extend([("hot", json!(self.hot)), ("hot_percent", json!(self.hot_percent))]);
        }
        if self.counts_all_updates() {
            parameters.push(("probe_records", json!(self.probe_records)));
        }
        if self.shift_seconds > 0.0 {
            parameters.push(("shift_seconds", json!(self.shift_seconds)));
        }
        if self.apart {
            parameters.push(("routing", json!("apart")));
        }
        parameters.push(("think_us", json!(self.pause.as_microseconds())));
        parameters
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        load::load(self, db)
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        Ok(Box::new(generator::Register::bind(*self, db, callers)?))
    }

    fn functions(&self) -> Option<Functions> {
        use Argument::{Integer, Text};
        let call = FunctionCall::of_integers;
        let number = |place| Text(place, |number| tables::Number::new(number).as_str().to_owned());
        let kind_and_start = [number(0), Integer(1), Integer(2)];
        let calls = vec![
            call("get_subscriber_data", 1),
            call("get_new_destination", 4),
            call("get_access_data", 2),
            call("update_subscriber_data", 3),
            FunctionCall::new("update_location", [number(0), Integer(1)]),
            FunctionCall::new(
                "insert_call_forwarding",
                [&kind_and_start[..], &[Integer(3), number(4)]].concat(),
            ),
            FunctionCall::new("delete_call_forwarding", kind_and_start),
            FunctionCall::new("update_by_number", [number(0), Integer(1)]),
        ];
        Some(Functions { script: include_str!("../../sql/tatp.sql"), calls })
    }

    fn marks(&self, db: &Database) -> Result<u64> {
        check::marks(db)
    }

    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String> {
        check::check(db, marks, self.counts_all_updates())
    }

    fn check_acknowledged(&self, _db: &Database, keys: &[String]) -> Result<(), String> {
        match keys.first() {
            None => Ok(()),
            Some(key) => Err(format!("{key:?} was not written by tatp, which acknowledges no keys")),
        }
    }
}
