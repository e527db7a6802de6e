//! Benchmark workloads of HeddleDB, each written once on the public interface of the engine, and the driver that
//! runs any of them.
//!
//! | folder | what is there |
//! | --- | --- |
//! | [`workload`] | what a workload is: tables, calls, and the invariants that hold after every run |
//! | [`catalog`] | which workload created which table of a database |
//! | [`calls`] | calls made together, in memory that is used again |
//! | [`debit_credit`] | the 1985 bank: branches, tellers, accounts, history |
//! | [`probe`] | twenty probes in key order, the experiment of the serial protocol's paper |
//! | [`flights`] | real rows with real skew: one transaction over six tables for each row of a file |
//! | [`incr`] | a call adds 1 to one key, hot or not |
//! | [`like`] | users like pages, of which some are popular |
//! | [`bookings`] | stays of some nights, tours of a guide: conflicts that only intervals and inserted values predict |
//! | [`flash_sale`] | items that must not be oversold, orders, page views, a leaderboard |
//! | [`rubis`] | an auction site: bids on popular items, comments, lists of the newest |
//! | [`ycsb`] | a number of reads and writes of single records |
//! | [`tatp`] | a register of mobile phones: short transactions, of which many fail |
//! | [`smallbank`] | customers with two accounts each, of whom some are hot |
//! | [`tpcc`] | a wholesaler: orders, payments, deliveries |
//! | [`functions`] | a workload's transactions as functions in SQL |
//! | [`interface`] | connections that make the calls in another way than by procedures |
//! | [`contender`] | something outside of the engine that does the same calls |
//! | [`driver`] | runs calls at a database and measures what is released |
//!
//! A workload knows neither the driver nor the command line; the driver knows workloads only by their trait.

pub mod bookings;
pub mod calls;
pub mod catalog;
pub mod contender;
pub mod debit_credit;
pub mod driver;
mod error;
pub mod flash_sale;
pub mod flights;
pub mod functions;
pub mod incr;
pub mod interface;
pub mod like;
mod mix;
pub mod pause;
pub mod probe;
pub mod rubis;
mod scan;
pub mod smallbank;
pub mod tatp;
pub mod tpcc;
pub mod workload;
pub mod ycsb;
mod zipf;

pub use calls::{Call, Calls};
pub use error::{Error, Result};
pub use workload::{Bound, Generator, Workload};

/// Every workload with its default settings, which are enough to check its tables in a database.
pub fn all() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(debit_credit::DebitCredit::default()),
        Box::new(probe::Probe::default()),
        Box::new(flights::Flights::from_tables()),
        Box::new(incr::Increment::one_hot()),
        Box::new(incr::Operations::new(incr::Increment::one_hot(), Some(incr::Operation::Add))),
        Box::new(incr::Increment::zipf()),
        Box::new(like::Like::default()),
        Box::new(bookings::Bookings::default()),
        Box::new(flash_sale::FlashSale::default()),
        Box::new(rubis::Rubis::default()),
        Box::new(ycsb::Ycsb::default()),
        Box::new(ycsb::Ycsb::read_modify_write()),
        Box::new(tatp::Tatp::default()),
        Box::new(smallbank::SmallBank::default()),
        Box::new(tpcc::Tpcc::default()),
    ]
}
