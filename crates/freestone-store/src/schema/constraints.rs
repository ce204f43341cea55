//! The constraints of a table with their names.

use super::{CheckConstraint, ForeignKey, TableSchema};

/// A constraint of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint<'a> {
    /// The name, which is unique in the table.
    pub name: String,
    /// What it demands.
    pub kind: ConstraintKind<'a>,
}

/// What a constraint demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintKind<'a> {
    /// The columns of a PRIMARY KEY, and whether it is enforced.
    Primary(&'a [String], bool),
    /// The columns of a UNIQUE.
    Unique(&'a [String]),
    /// A FOREIGN KEY.
    Foreign(&'a ForeignKey),
    /// A CHECK.
    Check(&'a CheckConstraint),
}

impl ConstraintKind<'_> {
    /// The columns of a key.
    pub fn columns(&self) -> &[String] {
        match self {
            ConstraintKind::Primary(columns, _) | ConstraintKind::Unique(columns) => columns,
            ConstraintKind::Foreign(key) => &key.columns,
            ConstraintKind::Check(_) => &[],
        }
    }
}

/// The name that PostgreSQL gives a constraint without one: that of the table without its schema, the columns, and a
/// suffix for the kind, such as `pkey`.
pub fn usual_constraint_name(table: &str, columns: &[String], suffix: &str) -> String {
    let own = table.rsplit_once('.').map_or(table, |(_, own)| own);
    let parts = std::iter::once(own).chain(columns.iter().map(String::as_str)).chain([suffix]);
    parts.collect::<Vec<_>>().join("_")
}

impl ForeignKey {
    /// The name of the constraint in a table: that which was declared, or that which PostgreSQL gives it.
    pub fn name_in(&self, table: &str) -> String {
        match self.name.as_str() {
            "" => usual_constraint_name(table, &self.columns, "fkey"),
            name => name.to_owned(),
        }
    }
}

impl TableSchema {
    /// All constraints but NOT NULL, of a table with this name. Those that were declared without a name have that which
    /// PostgreSQL gives them.
    pub fn constraints(&self, table: &str) -> Vec<Constraint<'_>> {
        let mut all = vec![];
        let primary = self.enforced_primary_key();
        if !self.primary_key.is_empty() {
            let name = primary.map_or_else(|| usual_constraint_name(table, &[], "pkey"), |key| key.name.clone());
            all.push(Constraint { name, kind: ConstraintKind::Primary(&self.primary_key, primary.is_some()) });
        }
        let unique = self.unique_keys.iter().filter(|key| Some(*key) != primary);
        all.extend(unique.map(|key| Constraint { name: key.name.clone(), kind: ConstraintKind::Unique(&key.columns) }));
        for key in &self.foreign_keys {
            all.push(Constraint { name: key.name_in(table), kind: ConstraintKind::Foreign(key) });
        }
        all.extend(
            self.checks.iter().map(|check| Constraint { name: check.name.clone(), kind: ConstraintKind::Check(check) }),
        );
        all
    }

    /// The name, or the name with a number if a constraint of the table has it, as in PostgreSQL.
    pub fn free_constraint_name(&self, table: &str, name: &str) -> String {
        let taken = self.constraints(table);
        let is_free = |name: &String| taken.iter().all(|other| other.name != *name);
        let numbered = (1..).map(|number| format!("{name}{number}"));
        std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
    }

    /// Removes a constraint. Columns of a primary key remain NOT NULL. Returns whether there was one of this name.
    pub fn drop_constraint(&mut self, table: &str, name: &str) -> bool {
        let all = self.constraints(table);
        let Some(found) = all.into_iter().find(|constraint| constraint.name == name) else { return false };
        match found.kind {
            ConstraintKind::Primary(..) => {
                self.unique_keys.retain(|key| key.name != name);
                self.primary_key.clear();
            }
            ConstraintKind::Unique(_) => self.unique_keys.retain(|key| key.name != name),
            ConstraintKind::Check(_) => self.checks.retain(|check| check.name != name),
            ConstraintKind::Foreign(key) => {
                let key = key.clone();
                if let Some(at) = self.foreign_keys.iter().position(|other| *other == key) {
                    self.foreign_keys.remove(at);
                }
            }
        }
        true
    }

    /// Renames a constraint. Returns whether there was one of this name that is kept by its name.
    pub fn rename_constraint(&mut self, table: &str, name: &str, new: &str) -> bool {
        for (at, key) in self.foreign_keys.iter().enumerate() {
            let usual = usual_constraint_name(table, &key.columns, "fkey");
            if key.name == name || key.name.is_empty() && usual == name {
                self.foreign_keys[at].name = new.to_owned();
                return true;
            }
        }
        let unique = self.unique_keys.iter_mut().map(|key| &mut key.name);
        let mut names = unique.chain(self.checks.iter_mut().map(|check| &mut check.name));
        let found = names.find(|known| **known == name);
        found.map(|known| *known = new.to_owned()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::super::{Column, UniqueKey};
    use super::*;

    #[test]
    fn constraints_are_found_by_their_names() {
        let column = |name: &str| Column { name: name.into(), data_type: DataType::Int32, nullable: true };
        let key = |name: &str, columns: &[&str]| UniqueKey {
            name: name.into(),
            columns: columns.iter().map(|name| (*name).into()).collect(),
        };
        let foreign = |name: &str| ForeignKey {
            name: name.into(),
            columns: vec!["b".into()],
            table: "d".into(),
            referenced: vec![],
            enforced: false,
        };
        let mut schema = TableSchema {
            columns: ["a", "b"].map(column).to_vec(),
            primary_key: vec!["a".into()],
            unique_keys: vec![key("p", &["a"]), key("u", &["a", "b"])],
            foreign_keys: vec![foreign(""), foreign("f")],
            checks: vec![CheckConstraint { name: "c".into(), condition: "a > 0".into() }],
            ..TableSchema::default()
        };
        let names = |schema: &TableSchema| {
            schema.constraints("s.t").into_iter().map(|constraint| constraint.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&schema), ["p", "u", "t_b_fkey", "f", "c"]);
        assert_eq!(schema.free_constraint_name("s.t", "c"), "c1");
        assert!(schema.rename_constraint("s.t", "t_b_fkey", "g") && schema.rename_constraint("s.t", "u", "v"));
        assert_eq!(names(&schema), ["p", "v", "g", "f", "c"]);
        for name in ["p", "g", "c", "v"] {
            assert!(schema.drop_constraint("s.t", name));
        }
        assert!(!schema.drop_constraint("s.t", "p"));
        assert_eq!((names(&schema), schema.primary_key.len()), (vec!["f".to_owned()], 0));
        schema.primary_key = vec!["a".into()];
        assert_eq!(names(&schema), ["t_pkey", "f"]);
        assert!(schema.drop_constraint("s.t", "t_pkey"));
    }
}
