//! The qualifiers of relations in a plan: each one once.

use std::collections::HashMap;

/// Gives relations of a plan names that differ.
#[derive(Debug, Default)]
pub(crate) struct Qualifiers {
    /// The names that were given, with how often.
    given: HashMap<String, usize>,
}

impl Qualifiers {
    /// A qualifier that no other relation of the plan has. It is the name itself where that is free.
    pub fn next(&mut self, name: &str) -> String {
        let name = if name.is_empty() { "__query" } else { name };
        let count = self.given.entry(name.to_owned()).or_insert(0);
        *count += 1;
        if *count == 1 {
            return name.to_owned();
        }
        let own = format!("{name}${count}");
        // A user may have called a table so.
        if self.given.contains_key(&own) {
            return self.next(&own);
        }
        self.given.insert(own.clone(), 1);
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_given_twice() {
        let mut qualifiers = Qualifiers::default();
        let names: Vec<String> =
            ["t", "t", "t$2", "t", "", "t"].into_iter().map(|name| qualifiers.next(name)).collect();
        assert_eq!(names, ["t", "t$2", "t$2$2", "t$3", "__query", "t$4"]);
    }
}
