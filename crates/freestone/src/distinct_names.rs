//! Distinct names for the columns of a table.

/// Adds a number to names that occurred before, because the names of a table's columns must be distinct.
pub(crate) fn different_names(given: impl Iterator<Item = String>) -> Vec<String> {
    let given: Vec<String> = given.collect();
    let mut taken: std::collections::HashSet<String> = given.iter().cloned().collect();
    let mut seen = std::collections::HashSet::new();
    // The number to try next for each name that comes again.
    let mut next = std::collections::HashMap::new();
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
