//! Freestone's part of a session's settings, as DataFusion keeps them.

use datafusion::common::config::ConfigExtension;
use datafusion::common::extensions_options;

extensions_options! {
    /// Freestone's part of the session's settings.
    pub struct FreestoneSettings {
        /// Design of tables created without WITH: a preset's name
        pub design: String, default = "auto".to_string()
        /// What the workload log keeps of this session's queries: on (without literals), literals, or off
        pub workload: String, default = "on".to_string()
        /// Whether queries may read copies of their tables
        pub copies: bool, default = true
        /// How long a statement waits for other transactions, in milliseconds; 0 for no limit
        pub lock_timeout: u64, default = 0
        /// How long a transaction may hold its snapshot, in milliseconds; 0 for no limit
        pub snapshot_max_age: u64, default = 0
        /// How long tables can be read as they were before a commit, in seconds; 0 for not at all
        pub retention: u64, default = 0
        /// How scans find their rows: auto (as costs less), block, or index, where one has the columns of predicates
        pub iterator: String, default = "auto".to_string()
        /// Whether a commit waits until it is durable: on or off
        pub synchronous_commit: String, default = "on".to_string()
        /// Whether queries may read materialized views instead of the tables that they name
        pub materialized_view_matching: bool, default = true
        /// Where NULL is in a key of ORDER BY that does not say so
        pub default_null_order: String, default = "nulls_last_on_asc_first_on_desc".to_string()
        /// Whether rows without ORDER BY come in the order of their table
        pub preserve_insertion_order: bool, default = true
        /// The least time that a statement is predicted to take before workers get parts of it, in milliseconds
        pub distribution_threshold: u64, default = 20
        /// Whether a worker that has ended its part of a statement gets some of what others have not begun
        pub distribution_claims: bool, default = true
        /// Whether columns that are declared as VARCHAR(n) or CHAR(n) refuse longer texts
        pub check_lengths: bool, default = false
        /// Whether values that statements store are rounded to the types of their columns
        pub round_values: bool, default = false
        /// How texts of dates and times read: iso, or as in PostgreSQL with this order of day, month and year
        pub date_order: String, default = "iso".to_string()
    }
}

impl ConfigExtension for FreestoneSettings {
    const PREFIX: &'static str = "freestone";
}
