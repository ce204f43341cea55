//! Distinct names for the columns of a table.

use std::collections::HashMap;

/// Adds a number to names that occurred before, because the names of a table's columns must be distinct. In a header, a name
/// with a number that is given stays: `a`, `a` and `a_1` are `a`, `a_2` and `a_1`.
pub(crate) fn different_names(given: impl Iterator<Item = String>) -> Vec<String> {
    let given: Vec<String> = given.collect();
    let mut taken: std::collections::HashSet<String> = given.iter().cloned().collect();
    let mut seen = std::collections::HashSet::new();
    // The number to try next for each name that comes again.
    let mut next = HashMap::new();
    let mut names = Vec::with_capacity(given.len());
    for name in given {
        if seen.insert(name.clone()) {
            names.push(name);
            continue;
        }
        let numbered = {
            let next = next.entry(name.clone()).or_insert(1u64);
            loop {
                let numbered = format!("{name}_{next}");
                *next += 1;
                if !taken.contains(&numbered) {
                    break numbered;
                }
            }
        };
        taken.insert(numbered.clone());
        seen.insert(numbered.clone());
        names.push(numbered);
    }
    names
}

/// The same for the columns of a query, of which each is named when it comes, as in DuckDB: `a`, `a` and `a_1` are `a`, `a_1` and
/// `a_1_1`.
pub(crate) fn numbered_names<'a>(given: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen: HashMap<String, u64> = HashMap::new();
    let numbered = |name: &str| {
        let Some(mut number) = seen.get(name).copied() else {
            seen.insert(name.to_owned(), 1);
            return name.to_owned();
        };
        let other = loop {
            let other = format!("{name}_{number}");
            if !seen.contains_key(&other) {
                break other;
            }
            number += 1;
        };
        seen.insert(name.to_owned(), number);
        seen.insert(other.clone(), 1);
        other
    };
    given.map(numbered).collect()
}
