//! Functions whose results are texts of a type of their own.

/// A part of a document, by key or position.
pub(crate) const PART: &str = "freestone_jsonb_part";
/// A part of a document, by a path such as `{a,0}`.
pub(crate) const AT_PATH: &str = "freestone_jsonb_at_path";

/// Whether the results of a function are JSONB.
pub(crate) fn makes_jsonb(function: &str) -> bool {
    const MAKING: [&str; 13] = [
        PART,
        AT_PATH,
        "jsonb_extract_path",
        "jsonb_strip_nulls",
        "jsonb_concat",
        "jsonb_delete",
        "jsonb_delete_path",
        "jsonb_set",
        "jsonb_set_lax",
        "jsonb_insert",
        "jsonb_build_array",
        "jsonb_build_object",
        "jsonb_object",
    ];
    MAKING.contains(&function)
}
