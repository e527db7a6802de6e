//! The integration tests of the engine's public interface, as one program: one module for each behavior.
//!
//! Tests that replace the allocator, count the process's threads or memory, or need a feature of the crate are programs
//! of their own beside this one.

#[path = "../support/mod.rs"]
mod support;

mod aborts;
mod added_columns;
mod added_columns_durable;
mod bad_input;
mod checkpoint;
mod checks;
mod churn;
mod composites;
mod concurrency;
mod conformance;
mod conversions;
mod crash;
mod dropped_memory;
mod durability;
mod examples;
mod faults;
mod feed;
mod follower;
mod foreign_keys;
mod group_time;
mod identity;
mod index_builds;
mod indexes;
mod limited_transactions;
mod locking;
mod log_failure;
mod log_space;
mod many_keys;
mod memory_limit;
mod memory_use;
mod model;
mod nullability;
mod open_table;
mod opening;
mod own_errors;
mod partitioned;
mod partitioned_batches;
mod partitioned_contention;
mod partitioned_key_resolution;
mod partitioned_plans;
mod partitioned_turns;
mod phase_refutations;
mod phased;
mod pipeline;
mod procedures;
mod protocol_changes;
mod readme;
mod rebuilds;
mod refutations;
mod repartitioning;
mod repeated_actions;
mod run_declared;
mod scan_errors;
mod schedule;
mod schema_changes;
mod schema_crashes;
mod sequences;
mod serial;
mod session_load;
mod session_load_redo;
mod session_schema;
mod sessions;
mod snapshots;
mod sqlstates;
mod stages;
mod standby;
mod transactions;
mod typed_tables;
mod types;
mod worker_contexts;
