//! Settings of PostgreSQL's planner and of other parts that HeddleDB does in its own way: they are accepted, kept and
//! shown, so that scripts which set them run. All but `default_statistics_target` and `plan_cache_mode` have no effect.
//!
//! Invariants: the names and defaults are PostgreSQL 15's.

use super::settings::Kind;

const WHOLE: Kind = Kind::Integer(0, i32::MAX as i64);
const COST: Kind = Kind::Real(0.0, f64::MAX);
const FRACTION: Kind = Kind::Real(0.0, 1.0);
const NEVER: Kind = Kind::Real(-1.0, f64::MAX);

/// The planner's settings, in the form of [`super::settings`]: name, default, permitted values, and true if changes are
/// reported to the client.
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

/// Settings that PostgreSQL's scripts and clients set or show beside the planner's: of its storage, its log, its vacuum, and of
/// versions before 15.
pub(super) const KEPT: &[(&str, &str, Kind, bool)] = &[
    ("allow_system_table_mods", "off", Kind::Bool, false),
    ("backend_flush_after", "0", Kind::Pages, false),
    ("block_size", "8192", Kind::Fixed, false),
    ("commit_delay", "0", Kind::Integer(0, 100_000), false),
    ("commit_siblings", "5", Kind::Integer(0, 1_000), false),
    ("compute_query_id", "auto", Kind::Words(&["auto", "regress", "on", "off"]), false),
    ("deadlock_timeout", "1s", Kind::Duration, false),
    ("default_text_search_config", "pg_catalog.simple", Kind::Text, false),
    ("default_with_oids", "off", Kind::Only(false, "tables declared WITH OIDS are not supported"), false),
    ("dynamic_library_path", "$libdir", Kind::Text, false),
    ("exit_on_error", "off", Kind::Bool, false),
    ("gin_pending_list_limit", "4MB", Kind::Size, false),
    ("ignore_checksum_failure", "off", Kind::Bool, false),
    ("in_hot_standby", "off", Kind::Fixed, true),
    ("jit_dump_bitcode", "off", Kind::Bool, false),
    ("lo_compat_privileges", "off", Kind::Bool, false),
    ("local_preload_libraries", "", Kind::Text, false),
    ("log_executor_stats", "off", Kind::Bool, false),
    ("log_lock_waits", "off", Kind::Bool, false),
    ("log_min_duration_sample", "-1", Kind::Integer(-1, i32::MAX as i64), false),
    (
        "log_min_error_statement",
        "error",
        Kind::Words(&[
            "debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log",
            "fatal", "panic",
        ]),
        false,
    ),
    ("log_parameter_max_length", "-1", Kind::Integer(-1, 1_073_741_823), false),
    ("log_parameter_max_length_on_error", "0", Kind::Integer(-1, 1_073_741_823), false),
    ("log_parser_stats", "off", Kind::Bool, false),
    ("log_planner_stats", "off", Kind::Bool, false),
    ("log_replication_commands", "off", Kind::Bool, false),
    ("log_statement_sample_rate", "1", FRACTION, false),
    ("log_statement_stats", "off", Kind::Bool, false),
    ("log_temp_files", "-1", Kind::Integer(-1, i32::MAX as i64), false),
    ("log_transaction_sample_rate", "0", FRACTION, false),
    ("maintenance_io_concurrency", "10", Kind::Integer(0, 1_000), false),
    ("max_function_args", "100", Kind::Fixed, false),
    ("max_prepared_transactions", "0", Kind::Fixed, false),
    ("session_preload_libraries", "", Kind::Text, false),
    ("tcp_keepalives_count", "0", WHOLE, false),
    ("tcp_keepalives_idle", "60", WHOLE, false),
    ("tcp_keepalives_interval", "10", WHOLE, false),
    ("tcp_user_timeout", "0", Kind::Duration, false),
    ("temp_file_limit", "-1", Kind::Integer(-1, i32::MAX as i64), false),
    ("timezone_abbreviations", "Default", Kind::Text, false),
    ("trace_notify", "off", Kind::Bool, false),
    ("trace_sort", "off", Kind::Bool, false),
    ("track_wal_io_timing", "off", Kind::Bool, false),
    (
        "transform_null_equals",
        "off",
        Kind::Only(false, "transform_null_equals is not supported: write IS NULL"),
        false,
    ),
    ("update_process_title", "on", Kind::Bool, false),
    ("vacuum_cost_page_dirty", "20", Kind::Integer(0, 10_000), false),
    ("vacuum_cost_page_hit", "1", Kind::Integer(0, 10_000), false),
    ("vacuum_cost_page_miss", "2", Kind::Integer(0, 10_000), false),
    ("vacuum_failsafe_age", "1600000000", Kind::Integer(0, 2_100_000_000), false),
    ("vacuum_freeze_min_age", "50000000", Kind::Integer(0, 1_000_000_000), false),
    ("vacuum_freeze_table_age", "150000000", Kind::Integer(0, 2_000_000_000), false),
    ("vacuum_multixact_failsafe_age", "1600000000", Kind::Integer(0, 2_100_000_000), false),
    ("vacuum_multixact_freeze_min_age", "5000000", Kind::Integer(0, 1_000_000_000), false),
    ("vacuum_multixact_freeze_table_age", "150000000", Kind::Integer(0, 2_000_000_000), false),
    ("wal_level", "replica", Kind::Fixed, false),
    ("wal_sender_timeout", "1min", Kind::Duration, false),
    ("wal_skip_threshold", "2MB", Kind::Size, false),
    ("zero_damaged_pages", "off", Kind::Bool, false),
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

    #[test]
    fn settings_of_old_dumps_are_kept_and_those_that_would_mean_something_are_refused() {
        assert_eq!(set("default_with_oids", "false"), Ok(Some("off".to_string())));
        assert_eq!(set("default_with_oids", "true"), Err("0A000".to_string()));
        assert_eq!(set("standard_conforming_strings", "off"), Err("0A000".to_string()));
        assert_eq!(set("standard_conforming_strings", "1"), Ok(Some("on".to_string())));
        assert_eq!(set("max_prepared_transactions", "5"), Err("55P02".to_string()));
        assert_eq!(set("client_encoding", "iso-8859-1"), Ok(Some("LATIN1".to_string())));
        assert_eq!(set("client_encoding", "sql_ascii"), Ok(Some("SQL_ASCII".to_string())));
        assert_eq!(set("client_encoding", "EUC_TW"), Err("0A000".to_string()));
        assert_eq!(set("client_encoding", "morse"), Err("22023".to_string()));
    }
}
