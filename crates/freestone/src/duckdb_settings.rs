//! Names of DuckDB's settings that change no answer there, or not with these values. They are accepted with a notice, so that scripts
//! which were written for DuckDB go on.

/// Settings of how DuckDB works: its files, threads, caches, optimizer, output and extensions.
const OF_WORK: [&str; 112] = [
    "allocator_background_threads",
    "allocator_bulk_deallocation_flush_threshold",
    "allocator_flush_threshold",
    "allow_community_extensions",
    "allow_extensions_metadata_mismatch",
    "allow_parser_override_extension",
    "allow_unsigned_extensions",
    "approximate_join_order_threshold",
    "arrow_large_buffer_size",
    "arrow_lossless_conversion",
    "arrow_output_list_view",
    "arrow_output_version",
    "asof_loop_join_threshold",
    "async_threads",
    "auto_checkpoint_skip_wal_threshold",
    "autoinstall_extension_repository",
    "autoinstall_known_extensions",
    "autoload_known_extensions",
    "block_allocator_memory",
    "cache_local_files",
    "catalog_error_max_schemas",
    "checkpoint_on_detach",
    "checkpoint_threshold",
    "custom_extension_repository",
    "custom_profiling_settings",
    "custom_user_agent",
    "debug_asof_iejoin",
    "debug_checkpoint_abort",
    "debug_checkpoint_scan_sleep_ms",
    "debug_force_external",
    "debug_force_no_cross_product",
    "debug_skip_checkpoint_on_commit",
    "debug_verify_vector",
    "debug_window_mode",
    "default_block_size",
    "disable_database_invalidation",
    "disable_object_cache",
    "disable_parquet_prefetching",
    "disable_print_progress_bar",
    "disable_profiling",
    "disable_progress_bar",
    "disable_verification",
    "disable_verify_external",
    "disable_verify_parallelism",
    "disabled_compression_methods",
    "disabled_log_types",
    "disabled_optimizers",
    "dynamic_or_filter_threshold",
    "enable_checkpoint_on_shutdown",
    "enable_external_file_cache",
    "enable_fsst_vectors",
    "enable_geoparquet_conversion",
    "enable_http_metadata_cache",
    "enable_logging",
    "enable_macro_dependencies",
    "enable_object_cache",
    "enable_optimistic_write",
    "enable_optimizer",
    "enable_print_progress_bar",
    "enable_profiling",
    "enable_progress_bar",
    "enable_progress_bar_print",
    "enable_verification",
    "enable_view_dependencies",
    "enabled_log_types",
    "experimental_metadata_reuse",
    "explain_output",
    "external_threads",
    "force_bitpacking_mode",
    "force_checkpoint",
    "force_compression",
    "fsync_mode",
    "http_client_pool_capacity",
    "immediate_transaction_mode",
    "index_scan_max_count",
    "index_scan_percentage",
    "initial_column_segment_size",
    "late_materialization_max_rows",
    "logging_level",
    "logging_mode",
    "logging_storage",
    "max_expression_depth",
    "max_streaming_buffer_size",
    "max_temp_directory_size",
    "max_vacuum_tasks",
    "merge_join_threshold",
    "nested_loop_join_threshold",
    "ordered_aggregate_threshold",
    "pandas_analyze_sample",
    "parquet_metadata_cache",
    "parquet_use_page_index",
    "partitioned_write_flush_threshold",
    "partitioned_write_max_open_files",
    "perfect_ht_threshold",
    "pin_threads",
    "pivot_filter_threshold",
    "prefer_range_joins",
    "prefetch_all_parquet_files",
    "profile_output",
    "profiling_coverage",
    "profiling_mode",
    "profiling_output",
    "progress_bar_time",
    "scheduler_process_partial",
    "storage_compatibility_version",
    "streaming_buffer_size",
    "temp_file_encryption",
    "verify_external",
    "verify_parallelism",
    "wal_autocheckpoint",
    "write_buffer_row_group_count",
    "zstd_min_string_length",
];

/// Settings of answers, with the values that describe the answers here.
const OF_ANSWERS: [(&str, &[&str]); 8] = [
    ("calendar", &["gregorian"]),
    ("default_collation", &["", "binary", "c", "posix"]),
    ("default_order", &["asc", "ascending"]),
    ("enable_external_access", &["true", "1", "on"]),
    ("ieee_floating_point_ops", &["true", "1", "on"]),
    ("integer_division", &["false", "0", "off"]),
    ("old_implicit_casting", &["false", "0", "off"]),
    ("scalar_subquery_error_on_multiple_rows", &["true", "1", "on"]),
];

/// What a statement says of such a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is accepted: nothing changes.
    None,
    /// It asks for answers that are not available.
    Unavailable,
}

/// Whether a name is one of these settings, and what a value of it would change. RESET has no value.
pub(crate) fn effect(name: &str, value: Option<&str>) -> Option<Effect> {
    let name = name.to_ascii_lowercase();
    if OF_WORK.binary_search(&name.as_str()).is_ok() {
        return Some(Effect::None);
    }
    let (_, values) = OF_ANSWERS.iter().find(|(known, _)| *known == name)?;
    let is_here = value.is_none_or(|value| values.contains(&value.to_ascii_lowercase().as_str()));
    Some(if is_here { Effect::None } else { Effect::Unavailable })
}

/// The notice after such a statement.
pub(crate) fn notice(name: &str) -> String {
    format!("{} is a setting of DuckDB and has no effect here", name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order() {
        assert!(OF_WORK.is_sorted(), "a name is looked for by halves");
    }

    #[test]
    fn values_of_other_answers_are_unavailable() {
        assert_eq!(effect("Enable_Progress_Bar", Some("x")), Some(Effect::None));
        assert_eq!(effect("default_order", Some("DESC")), Some(Effect::Unavailable));
        assert_eq!(effect("default_order", Some("ASC")), Some(Effect::None));
        assert_eq!(effect("integer_division", None), Some(Effect::None));
        assert_eq!(effect("threads", Some("1")), None);
    }
}
