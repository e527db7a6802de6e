//! The integration tests of SQL, in process, as one program: one module for each behavior.
//!
//! Many compare with PostgreSQL 15 (`support/oracle.rs`).

mod families;
mod support;

mod aggregates;
mod alter_beside_updates;
mod broad_statements;
mod catalogs;
mod ch_benchmark;
mod column_reads;
mod connections;
mod copy_in_block;
mod corpus;
mod declared_calls;
mod declared_chains;
mod documented;
mod evaluator;
mod footprints;
mod functions;
mod indexes;
mod interrupts;
mod metamorphic;
mod operations;
mod oracle;
mod plan_cache;
mod privileges;
mod public_corpus;
mod random_routines;
mod random_statements;
mod reference;
mod report_plans;
mod routines;
mod row_locks;
mod same_places;
mod schema_transactions;
mod sequences;
mod slt;
mod table_locks;
mod tools;
mod work_memory;
