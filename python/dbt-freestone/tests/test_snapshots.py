"""dbt's tests of snapshots."""

from adopt import adopted

globals().update(
    adopted(
        "simple_snapshot.test_snapshot",
        "simple_snapshot.test_various_configs",
        "simple_snapshot.test_ephemeral_snapshot_hard_deletes",
        "simple_snapshot.new_record_check_mode",
        "simple_snapshot.new_record_timestamp_mode",
    )
)
