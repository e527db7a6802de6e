//! Settings of PostgreSQL's planner and of what else HeddleDB does in its own way: they are accepted, kept and shown,
//! so that scripts which set them run, and have no effect.
//!
//! Invariants: the names and defaults are PostgreSQL 15's.

use super::settings::Kind;

const WHOLE: Kind = Kind::Integer(0, i32::MAX as i64);
const COST: Kind = Kind::Real(0.0, f64::MAX);
const FRACTION: Kind = Kind::Real(0.0, 1.0);
const NEVER: Kind = Kind::Real(-1.0, f64::MAX);

/// As in [`super::settings`]: name, default, what it may be, and whether changes are reported.
pub(super) const PLANNER: &[(&str, &str, Kind, bool)] = &[
    ("array_nulls", "on", Kind::Bool, false),
    ("backslash_quote", "safe_encoding", Kind::Words(&["safe_encoding", "on", "off"]), false),
    ("constraint_exclusion", "partition", Kind::Words(&["partition", "on", "off"]), false),
    ("cpu_index_tuple_cost", "0.005", COST, false),
    ("cpu_operator_cost", "0.0025", COST, false),
    ("cpu_tuple_cost", "0.01", COST, false),
    ("cursor_tuple_fraction", "0.1", FRACTION, false),
    ("debug_pretty_print", "on", Kind::Bool, false),
    ("debug_print_parse", "off", Kind::Bool, false),
    ("debug_print_plan", "off", Kind::Bool, false),
    ("debug_print_rewritten", "off", Kind::Bool, false),
    ("default_statistics_target", "100", Kind::Integer(1, 10_000), false),
    ("default_toast_compression", "pglz", Kind::Words(&["pglz", "lz4"]), false),
    ("effective_cache_size", "4GB", Kind::Pages, false),
    ("effective_io_concurrency", "1", Kind::Integer(0, 1_000), false),
    ("enable_async_append", "on", Kind::Bool, false),
    ("enable_bitmapscan", "on", Kind::Bool, false),
    ("enable_gathermerge", "on", Kind::Bool, false),
    ("enable_hashagg", "on", Kind::Bool, false),
    ("enable_hashjoin", "on", Kind::Bool, false),
    ("enable_incremental_sort", "on", Kind::Bool, false),
    ("enable_indexonlyscan", "on", Kind::Bool, false),
    ("enable_indexscan", "on", Kind::Bool, false),
    ("enable_material", "on", Kind::Bool, false),
    ("enable_memoize", "on", Kind::Bool, false),
    ("enable_mergejoin", "on", Kind::Bool, false),
    ("enable_nestloop", "on", Kind::Bool, false),
    ("enable_parallel_append", "on", Kind::Bool, false),
    ("enable_parallel_hash", "on", Kind::Bool, false),
    ("enable_partition_pruning", "on", Kind::Bool, false),
    ("enable_partitionwise_aggregate", "off", Kind::Bool, false),
    ("enable_partitionwise_join", "off", Kind::Bool, false),
    ("enable_seqscan", "on", Kind::Bool, false),
    ("enable_sort", "on", Kind::Bool, false),
    ("enable_tidscan", "on", Kind::Bool, false),
    ("escape_string_warning", "on", Kind::Bool, false),
    ("force_parallel_mode", "off", Kind::Words(&["off", "on", "regress"]), false),
    ("from_collapse_limit", "8", Kind::Integer(1, i32::MAX as i64), false),
    ("geqo", "on", Kind::Bool, false),
    ("geqo_effort", "5", Kind::Integer(1, 10), false),
    ("geqo_generations", "0", WHOLE, false),
    ("geqo_pool_size", "0", WHOLE, false),
    ("geqo_seed", "0", FRACTION, false),
    ("geqo_selection_bias", "2", Kind::Real(1.5, 2.0), false),
    ("geqo_threshold", "12", Kind::Integer(2, i32::MAX as i64), false),
    ("gin_fuzzy_search_limit", "0", WHOLE, false),
    ("hash_mem_multiplier", "2", Kind::Real(1.0, 1_000.0), false),
    ("jit_above_cost", "100000", NEVER, false),
    ("jit_expressions", "on", Kind::Bool, false),
    ("jit_inline_above_cost", "500000", NEVER, false),
    ("jit_optimize_above_cost", "500000", NEVER, false),
    ("jit_tuple_deforming", "on", Kind::Bool, false),
    ("join_collapse_limit", "8", Kind::Integer(1, i32::MAX as i64), false),
    ("log_duration", "off", Kind::Bool, false),
    ("log_error_verbosity", "default", Kind::Words(&["terse", "default", "verbose"]), false),
    ("log_min_duration_statement", "-1", Kind::Integer(-1, i32::MAX as i64), false),
    (
        "log_min_messages",
        "warning",
        Kind::Words(&[
            "debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log",
            "fatal", "panic",
        ]),
        false,
    ),
    ("log_statement", "none", Kind::Words(&["none", "ddl", "mod", "all"]), false),
    ("logical_decoding_work_mem", "64MB", Kind::Size, false),
    ("max_parallel_maintenance_workers", "2", Kind::Integer(0, 1_024), false),
    ("max_parallel_workers", "8", Kind::Integer(0, 1_024), false),
    ("max_parallel_workers_per_gather", "2", Kind::Integer(0, 1_024), false),
    ("max_stack_depth", "2MB", Kind::Size, false),
    ("min_parallel_index_scan_size", "512kB", Kind::Pages, false),
    ("min_parallel_table_scan_size", "8MB", Kind::Pages, false),
    ("parallel_leader_participation", "on", Kind::Bool, false),
    ("parallel_setup_cost", "1000", COST, false),
    ("parallel_tuple_cost", "0.1", COST, false),
    ("password_encryption", "scram-sha-256", Kind::Words(&["scram-sha-256"]), false),
    ("plan_cache_mode", "auto", Kind::Words(&["auto", "force_generic_plan", "force_custom_plan"]), false),
    ("quote_all_identifiers", "off", Kind::Bool, false),
    ("random_page_cost", "4", COST, false),
    ("recursive_worktable_factor", "10", Kind::Real(0.001, 1_000_000.0), false),
    ("seq_page_cost", "1", COST, false),
    ("stats_fetch_consistency", "cache", Kind::Words(&["none", "cache", "snapshot"]), false),
    ("temp_buffers", "8MB", Kind::Pages, false),
    ("track_activities", "on", Kind::Bool, false),
    ("track_counts", "on", Kind::Bool, false),
    ("track_functions", "none", Kind::Words(&["none", "pl", "all"]), false),
    ("track_io_timing", "off", Kind::Bool, false),
    ("vacuum_cost_delay", "0", COST, false),
    ("vacuum_cost_limit", "200", Kind::Integer(1, 10_000), false),
    ("wal_compression", "off", Kind::Words(&["off", "on", "pglz", "lz4", "zstd"]), false),
    ("xmlbinary", "base64", Kind::Words(&["base64", "hex"]), false),
];

#[cfg(test)]
mod tests {
    use crate::session::settings::Settings;

    fn set(name: &str, value: &str) -> Result<Option<String>, String> {
        let mut settings = Settings::new();
        settings.set(name, Some(value), false, false).map_err(|error| error.state().as_str().to_string())?;
        Ok(settings.get(name).map(str::to_string))
    }

    #[test]
    fn planner_settings_are_kept_and_checked() {
        assert_eq!(set("enable_seqscan", "false"), Ok(Some("off".to_string())));
        assert_eq!(set("random_page_cost", "1.10"), Ok(Some("1.1".to_string())));
        assert_eq!(set("jit_above_cost", "-1"), Ok(Some("-1".to_string())));
        assert_eq!(set("min_parallel_table_scan_size", "0"), Ok(Some("0".to_string())));
        assert_eq!(set("effective_cache_size", "16GB"), Ok(Some("16GB".to_string())));
        assert_eq!(set("temp_buffers", "100"), Ok(Some("800kB".to_string())));
        assert_eq!(set("geqo_seed", "1.5"), Err("22023".to_string()));
        assert_eq!(set("enable_seqscan", "maybe"), Err("22023".to_string()));
        assert_eq!(set("random_page_cost", "cheap"), Err("22023".to_string()));
        assert_eq!(set("enable_magic", "on"), Err("42704".to_string()));
    }
}
