//! Plans: access paths, join order and methods, chosen by the tables' statistics.
//!
//! A bound statement becomes a tree of nodes that `run` executes. FROM and WHERE are first flattened into items and
//! conditions, so that the text's order of inner joins does not matter; each table then gets its cheapest access path, and a
//! greedy search joins the items one by one. Costs count rows examined, estimated by samples of the tables: a wrong
//! estimate makes a statement slow, but never wrong. Subqueries are joined, or computed once for all rows, where their
//! form allows it; the others are executed for each row.
//!
//! ```text
//! query, group        SELECT, set operations and grouping     from, tree      FROM and WHERE as items to join
//! join_order, join    the next item, and the join's method    semi_join, scalar   subqueries as joins
//! path, scan          access paths of a table's rows          statistics, selectivity   estimates of numbers of rows
//! translate           bound expressions over a row's slots    node, expression          what `run` executes
//! pushed              conditions moved into the queries in FROM
//! optional            left joins among other joins, and anti-joins
//! pipeline            joins whose first rows alone are wanted
//! semi_unit           IN and EXISTS as items to join
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
mod optional;
pub(crate) mod path;
mod pipeline;
pub(crate) mod planner;
pub(crate) mod prune;
mod pushed;
mod query;
pub(crate) mod sample;
mod scalar;
pub(crate) mod scan;
mod selectivity;
mod semi_join;
mod semi_unit;
pub(crate) mod statement;
pub(crate) mod statistics;
mod translate;
mod tree;
mod walk;

pub(crate) use walk::is_volatile_call;

pub(crate) use statement::{Known, Planned, plan};
pub(crate) use translate::{comparison_of, constant_value, is_fixed_cast, value_for_all_rows};
