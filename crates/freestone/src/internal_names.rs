//! Names that users do not see: of columns, and of the schemas of temporary tables.

/// The column of the rows' places in the table that a statement changes.
pub const ROW_ID_COLUMN: &str = freestone_binder::PLACES;

/// Begins the names of the columns of new values in the query of a statement that writes.
pub(crate) const NEW_VALUE: &str = "new ";

/// Whether a column is none that users write.
pub(crate) fn is_hidden(column: &str) -> bool {
    column.starts_with("__") || column.starts_with(NEW_VALUE)
}

/// Begins the suffix that makes a name different. A number follows. In the columns of a statement's result, it is the
/// position of the column, followed by a second mark and the position of the column with the same name. If that
/// position is not known, the name is the text before the mark.
pub(crate) const MARK: char = '\u{1}';

/// Begins the names of tables that exist only within one statement.
const INTERNAL_TABLE: &str = "freestone$";

/// A text with marked names and columns of internal tables, as users know the names.
pub(crate) fn without_marks(text: &str) -> String {
    let mut parts = text.split(MARK);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| shown.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit())));
    if !shown.contains(INTERNAL_TABLE) {
        return shown;
    }
    let mut parts = shown.split(INTERNAL_TABLE);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '$' || c == '_');
        match rest.strip_prefix('.') {
            Some(column) => plain.push_str(column),
            None => plain.extend([INTERNAL_TABLE, part]),
        }
    }
    plain
}

/// The name in SQL of the schema of a session's temporary tables, whichever session asks.
pub(crate) const PG_TEMP: &str = "pg_temp";
/// The names of these schemas in the catalog begin with this.
pub(crate) const TEMP_PREFIX: &str = "pg_temp_";

/// Whether a schema is that of a session.
pub(crate) fn is_temp_schema(name: &str) -> bool {
    name.starts_with(TEMP_PREFIX)
}

/// Whether a table, view or sequence belongs to a session.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.split_once('.').is_some_and(|(schema, _)| is_temp_schema(schema))
}

/// The name within the schema of a session; other names as they are.
pub(crate) fn own_name(name: &str) -> &str {
    name.split_once('.').filter(|(schema, _)| is_temp_schema(schema)).map_or(name, |(_, own)| own)
}

/// A name of the catalog as its session writes it.
pub(crate) fn shown(name: &str) -> String {
    match name.split_once('.') {
        Some((schema, own)) if is_temp_schema(schema) => format!("{PG_TEMP}.{own}"),
        _ => name.to_owned(),
    }
}
