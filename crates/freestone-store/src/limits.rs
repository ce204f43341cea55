//! Sizes and thresholds by which rows are divided and reads are planned. The advisor's model uses the same values.

/// Rows per zone, the smallest range of rows that a scan can skip.
pub const ZONE_ROWS: usize = 2048;
/// Rows per granule: the rows that a cursor filters and decodes together. Each of its zones is pruned separately.
pub const GRANULE_ROWS: usize = 8192;
/// Rows per morsel: the rows that a thread takes from a scan's queue at a time.
pub const MORSEL_ROWS: usize = 64 << 10;
/// Rows per segment, at most.
pub const SEGMENT_ROWS: usize = 1 << 20;
/// A segment ends after this many bytes of Arrow data, even if it has fewer rows. One is written while the rows of the
/// next come, so both are in memory.
pub(crate) const SEGMENT_BYTES: usize = 160 << 20;

/// Added rows of at most this number and size are hot rows: they stay in memory and in the log until they are merged.
pub(crate) const HOT_APPEND_ROWS: usize = 16 << 10;
pub(crate) const HOT_APPEND_BYTES: usize = 1 << 20;
/// Rows that one statement adds to a table in persistent memory; if there are more, the others become segments in files.
pub(crate) const POOL_APPEND_ROWS: u64 = 2 << 20;
/// Rows per page of hot rows, at most, and per zone of them.
pub(crate) const HOT_PAGE_ROWS: usize = 1024;
/// Rows per run of hot rows, at most.
pub(crate) const HOT_RUN_ROWS: usize = 64 << 10;
/// Hot rows of a table are merged when they take this many bytes, or the other when nobody has written for a while.
pub(crate) const HOT_BYTES: u64 = 64 << 20;
pub(crate) const HOT_BYTES_IDLE: u64 = 256 << 10;
/// When the hot rows of all tables take this many bytes, those of the tables with `HOT_BYTES_IDLE` are merged.
pub(crate) const HOT_BYTES_ALL: u64 = 256 << 20;
/// When nobody has written for a while, the log is folded if it is longer than this, in bytes.
pub(crate) const LOG_BYTES_IDLE: u64 = 1 << 20;
/// The number of runs of similar size that are compacted. Sizes are similar if they differ by less than this factor.
pub(crate) const COMPACTION_RUNS: usize = 4;
/// The log is folded when the commits since the last base record take this many bytes, and as many as the base record.
pub(crate) const CHECKPOINT_BYTES: u64 = 4 << 20;
/// The number of commits to a bucket after which their state is folded.
pub(crate) const SHARED_COMMITS: u64 = 64;
/// The bytes of a table's hot rows in a bucket from which on they are merged.
pub(crate) const SHARED_HOT_BYTES: u64 = 4 << 20;

/// An index is used if its cost is less than that of testing the rows that survive zone pruning. The cost of a match, in
/// rows that a scan tests in the same time:
pub const INDEX_MATCH_ROWS: usize = 64;
/// The same, if the predicate tests strings without a segment dictionary, whose tests are expensive.
pub const INDEX_STRING_MATCH_ROWS: usize = 8;
/// The cost of an entry at the ends of a range, which must be tested, in the same unit.
pub const INDEX_TEST_ROWS: usize = 4;

/// The longest single read, in bytes.
pub const IO_UNIT_BYTES: usize = 128 << 10;
/// The maximum number of reads in flight.
pub const IO_DEPTH: usize = 48;

/// Bytes in files that no table needs any more, from which on a commit waits until they are gone, if the tables have not
/// more.
pub const SPARE_BYTES: u64 = 1 << 20;
/// Bytes of a file that is removed when the disk is full and a commit that frees space must be written.
pub const RESERVE_BYTES: u64 = 256 << 10;
