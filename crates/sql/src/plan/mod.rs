//! Plans: access paths, join order and methods, chosen by the tables' statistics.
//!
//! ```text
//! query, group        SELECT and what stands around it        from, tree      FROM and WHERE as what is to be joined
//! join_order, join    which item next, by which method        semi_join, scalar   subqueries as joins
//! path, scan          how a table's rows are found            statistics, selectivity   how many there will be
//! translate           bound expressions over a row's slots    node, expression          what `run` executes
//! pushed              conditions moved into the queries in FROM
//! keyed               the answers of correlated subqueries, computed for all rows at once
//! ```
//!
//! # Invariants
//! - A plan knows no values of parameters: it is made once and run often, by several threads at once.

mod column_share;
pub(crate) mod column_statistics;
pub(crate) mod commute;
pub(crate) mod decoder;
pub(crate) mod explain;
pub(crate) mod expression;
mod extremes;
mod from;
mod group;
mod index_match;
mod join;
mod join_order;
mod keyed;
pub(crate) mod late_targets;
mod layout;
mod lock;
pub(crate) mod node;
pub(crate) mod path;
pub(crate) mod planner;
pub(crate) mod prune;
mod pushed;
mod query;
pub(crate) mod sample;
mod scalar;
pub(crate) mod scan;
mod selectivity;
mod semi_join;
pub(crate) mod statement;
pub(crate) mod statistics;
mod translate;
mod tree;
mod walk;

pub(crate) use walk::is_volatile_call;

pub(crate) use statement::{Known, Planned, plan};
pub(crate) use translate::{comparison_of, constant_value, is_fixed_cast, value_for_all_rows};
