//! Messages of DataFusion and Arrow in the words of SQL: sentences about types without signatures and lists of candidates,
//! with types and literals as [`in_sql`] writes them.

use super::in_sql::in_sql;

/// The prefixes that libraries add to messages.
const PREFIXES: [&str; 11] = [
    "External error: ",
    "Arrow error: ",
    "Optimizer rule 'simplify_expressions' failed",
    "type_coercion",
    "caused by",
    "Error during planning: ",
    "Execution error: ",
    "Internal error: ",
    "Cast error: ",
    "Parser error: ",
    "Compute error: ",
];

/// A message of a library in our words.
pub(crate) fn plain(message: &str) -> String {
    let message = without_prefixes(message.trim());
    let written = sentence(message).unwrap_or_else(|| first_lines(message).to_owned());
    in_sql(&written)
}

fn without_prefixes(mut message: &str) -> &str {
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| message.strip_prefix(prefix)) {
        message = rest.trim_start();
    }
    message
}

/// The message without what follows its first line, such as a plan, and without the request to report a bug to others.
fn first_lines(message: &str) -> &str {
    let own = message.split("\nThis issue was likely caused by a bug").next().unwrap_or_default();
    let own = own.split(". No function matches the given name").next().unwrap_or_default();
    own.split('\n').next().unwrap_or_default().trim_end()
}

/// The sentence for a message of a known form.
fn sentence(message: &str) -> Option<String> {
    about_calls(message).or_else(|| about_operators(message)).or_else(|| about_queries(message))
}

/// Calls of functions with arguments that they do not take.
fn about_calls(message: &str) -> Option<String> {
    if let Some((_, inner)) = message.split_once("user-defined coercion failed with: ") {
        let inner = without_prefixes(inner);
        let is_own = !inner.starts_with("Function '");
        return Some(if is_own { first_lines(inner).to_owned() } else { plain(inner) });
    }
    let call = message.split_once("No function matches the given name and argument types '").map(|(_, rest)| rest);
    let call = call.and_then(|rest| rest.split_once("'. You might need")).map(|(call, _)| call);
    if let Some((function, rest)) = quoted_after(message, "unction '")
        && let Some((expected, given)) = between(rest, "expect", "arguments but received ")
    {
        let expected = expected.trim_start_matches(['s', 'e', 'd', ' ']).trim();
        let given: String = given.chars().take_while(char::is_ascii_digit).collect();
        let plural = if expected == "1" { "" } else { "s" };
        if expected.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(format!("{function} takes {expected} argument{plural}, and was given {given}"));
        }
    }
    if message.contains("does not support zero arguments") {
        return quoted_after(message, "").map(|(function, _)| format!("{function} takes an argument"));
    }
    if let Some(call) = call {
        let (function, types) = call.split_once('(')?;
        return Some(format!("{function} does not take ({types}"));
    }
    if let Some((function, rest)) = quoted_after(message, "satisfy a call to '")
        && let Some((types, _)) = between(rest, "coercion from ", " to the signature ")
    {
        return Some(format!("{function} does not take ({types})"));
    }
    if let Some((function, _)) = message.split_once(" can only accept List") {
        return Some(format!("{function} takes a list"));
    }
    if message.contains("failed to match any signature") || message.contains(", but received ") {
        let (function, rest) = quoted_after(message, "unction '")?;
        let given = rest.split_once("(DataType: ").and_then(|(_, rest)| rest.split_once(")")).map(|(given, _)| given);
        return Some(match given {
            Some(given) => format!("{function} does not take {}", balanced(given)),
            None => format!("{function} does not take these arguments"),
        });
    }
    None
}

/// Operators, casts and conditions over types that they do not take.
fn about_operators(message: &str) -> Option<String> {
    let after = |prefix: &str| message.strip_prefix(prefix).map(first_lines);
    if let Some(operation) = after("Cannot infer common argument type for comparison operation ") {
        return Some(format!("these types cannot be compared: {operation}"));
    }
    if let Some(operation) = after("Cannot coerce arithmetic expression ") {
        return Some(format!("there is no operator {}", operation.trim_end_matches(" to valid types")));
    }
    if let Some(operation) = after("Cannot get result type for temporal operation ") {
        return Some(format!("there is no operator {}", operation.split(": ").next()?));
    }
    if let Some(operation) = after("Cannot infer common string type for string concat operation ") {
        return Some(format!("there is no operator {operation}"));
    }
    if let Some(operation) = after("Cannot infer common argument type for logical boolean operation ") {
        return Some(format!("AND and OR take conditions: {operation}"));
    }
    if let Some((operation, _)) = between(message, "There isn't a common type to coerce ", " expression") {
        let (types, operator) = operation.rsplit_once(" in ")?;
        return Some(format!("{operator} takes texts, and was given {types}"));
    }
    if let Some(data_type) = after("Cannot run range queries on datatype: ") {
        let data_type = data_type.trim_end_matches('.');
        return Some(format!("RANGE with an offset does not go with ORDER BY of {data_type}"));
    }
    if let Some((data_type, _)) = between(message, "could not cast array of type ", " to arrow_array::") {
        return Some(format!("a value of type {data_type} is not possible here"));
    }
    if let Some((value, rest)) = message.split_once(" is too large to store in a Decimal") {
        let (digits, _) = between(rest, "precision ", ".")?;
        return Some(format!("{value} is out of range for a DECIMAL of {digits} digits"));
    }
    if let Some(types) = after("Unsupported CAST from ") {
        let (from, to) = types.split_once(" to ")?;
        return Some(format!("{from} cannot be cast to {to}"));
    }
    if let Some((predicate, data_type)) =
        between(message, "Cannot create filter with non-boolean predicate '", "' returning ")
    {
        return Some(format!("a condition is BOOLEAN, and {predicate} is {}", first_lines(data_type)));
    }
    None
}

/// Queries whose parts do not fit each other.
fn about_queries(message: &str) -> Option<String> {
    if let Some((place, types)) = between(message, "Inconsistent data type across values list at ", ". Was ") {
        let number = |part: &str| place.split_once(part)?.1.split(' ').next()?.parse::<usize>().ok();
        let (row, column) = (number("row ")?, number("column ")?);
        let (known, found) = types.split_once(" but found ")?;
        let found = first_lines(found).trim_end_matches('.');
        return Some(format!("row {} of VALUES has {found} in column {}, after {known}", row + 1, column + 1));
    }
    if let Some((known, rest)) =
        between(message, "Incompatible inputs for Union: Previous inputs were of type ", ", but got incompatible type ")
    {
        let (found, column) = rest.split_once(" on column ")?;
        return Some(format!(
            "column {} of a UNION is {known} in one query and {found} in another",
            first_lines(column)
        ));
    }
    if let Some(types) = message.strip_prefix("Failed to coerce then (") {
        let types = types.split(") to common types").next()?.replace(") and else (", ", ");
        return Some(format!("the results of CASE have no common type: {types}"));
    }
    if let Some(types) = message.strip_prefix("Failed to coerce case (") {
        let types = types.split(") to common types").next()?.replace(") and when (", ", ");
        return Some(format!("the values of CASE and WHEN have no common type: {types}"));
    }
    if let Some((types, _)) = between(message, "Failed to coerce types ", " in BETWEEN expression") {
        return Some(format!("{types} cannot be compared by BETWEEN"));
    }
    if message.starts_with("Fail to find the coerced type") {
        return Some("these values have no common type".to_owned());
    }
    about_names(message)
}

/// Names that nothing has, and texts that have no meaning.
fn about_names(message: &str) -> Option<String> {
    if let Some(name) = message.strip_prefix("Unsupported SQL type ") {
        return Some(format!("no type {}", first_lines(name)));
    }
    if let Some(name) = message.strip_prefix("Invalid qualifier ") {
        return Some(format!("no table {}", first_lines(name)));
    }
    if let Some((name, _)) = between(message, "Unsupported type '", "'. Must be a supported arrow type name") {
        return Some(format!("Arrow has no type {name}"));
    }
    if let Some(parts) = message.strip_prefix("compound identifier: [") {
        let parts: Vec<&str> = parts.trim_end_matches(']').split(", ").map(|part| part.trim_matches('"')).collect();
        return Some(format!("no column {}", parts.join(".")));
    }
    if let Some((data_type, _)) = between(message, "Cannot access field at argument ", " is not Struct, Map, or Null") {
        return Some(format!("{} has no fields", data_type.split_once(": type ")?.1));
    }
    if let Some(lines) = message.strip_prefix("regex parse error:\n") {
        let (pattern, reason) = (lines.lines().next()?.trim(), lines.rsplit_once("error: ")?.1);
        return Some(format!("'{pattern}' is no regular expression: {}", first_lines(reason)));
    }
    if let Some(column) = message.strip_prefix("Column in SELECT must be in GROUP BY or an aggregate function") {
        let (_, rest) = column.split_once("column \"")?;
        let column = rest.split_once("\" must appear").map(|(column, _)| column)?;
        return Some(format!("column {column} must appear in GROUP BY, or within an aggregate function"));
    }
    if message.contains("require unique expression names") {
        let (name, _) = quoted_by(message, "the expression \"", '"')?;
        return Some(format!("several columns are called {name} here: give each a name of its own with AS"));
    }
    if message.starts_with("Unnest should be rewritten") {
        return Some("unnest makes rows, which is not possible here".to_owned());
    }
    if message.starts_with("Too many columns!") {
        return Some("Too many columns: a subquery that is used as a value has one column".to_owned());
    }
    None
}

/// The text in single quotes after a mark, and what follows it.
fn quoted_after<'a>(message: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    match mark {
        "" => quoted_by(message, "'", '\''),
        mark => quoted_by(message, mark, '\''),
    }
}

fn quoted_by<'a>(message: &'a str, mark: &str, end: char) -> Option<(&'a str, &'a str)> {
    message.split_once(mark)?.1.split_once(end)
}

/// The text between two marks, and what follows the second one.
fn between<'a>(message: &'a str, from: &str, to: &str) -> Option<(&'a str, &'a str)> {
    message.split_once(from)?.1.split_once(to)
}

/// A type whose last parentheses may be missing.
fn balanced(text: &str) -> String {
    let open = text.matches('(').count().saturating_sub(text.matches(')').count());
    format!("{text}{}", ")".repeat(open))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_ours() {
        for (message, expected) in [
            (
                "Function 'abs' expects Numeric but received String. No function matches the given name and argument types \
                 'abs(Utf8)'. You might need to add explicit type casts.\n\tCandidate functions:\n\tabs(Numeric(1))",
                "abs does not take (VARCHAR)",
            ),
            (
                "Function 'upper' expects 1 arguments but received 2. No function matches the given name and argument types \
                 'upper(Int64, Int64)'. You might need to add explicit type casts.\n\tCandidate functions:\n\tupper(String)",
                "upper takes 1 argument, and was given 2",
            ),
            (
                "Function 'avg' user-defined coercion failed with: Execution error: Function 'avg' user-defined coercion \
                 failed with: Error during planning: avg takes numbers, not Boolean. No function matches the given name and \
                 argument types 'avg(Boolean)'. You might need to add explicit type casts.",
                "avg takes numbers, not BOOLEAN",
            ),
            (
                "Internal error: Function 'md5' failed to match any signature, errors: Error during planning: Function 'md5' \
                 requires String, but received Int64 (DataType: Int64).,Error …\nThis issue was likely caused by a bug in …",
                "md5 does not take BIGINT",
            ),
            (
                "Cannot infer common argument type for comparison operation Int32 = List(Int64)",
                "these types cannot be compared: INTEGER = BIGINT[]",
            ),
            (
                "Inconsistent data type across values list at row 1 column 0. Was Int64 but found Date32",
                "row 2 of VALUES has DATE in column 1, after BIGINT",
            ),
            ("a plan\nProjection: x\n  Scan", "a plan"),
        ] {
            assert_eq!(plain(message), expected);
        }
    }
}
