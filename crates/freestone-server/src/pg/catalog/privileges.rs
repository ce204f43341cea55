//! What the roles of users may do, as the functions `has_…_privilege` say it. A role holds for all objects.

use super::data::Data;
use super::values::Value;
use crate::users::Role;

/// The kinds of objects that have privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    Table,
    /// A column, whose table and name are given.
    Column,
    /// Any column of a table.
    AnyColumn,
    Sequence,
    /// A schema or a database.
    Container,
    /// What everybody may use.
    Common,
}

impl Of {
    /// The privileges, and whether users that may only read have them.
    fn privileges(self) -> &'static [(&'static str, bool)] {
        match self {
            Of::Table => &[
                ("SELECT", true),
                ("INSERT", false),
                ("UPDATE", false),
                ("DELETE", false),
                ("TRUNCATE", false),
                ("REFERENCES", false),
                ("TRIGGER", false),
            ],
            Of::Column | Of::AnyColumn => {
                &[("SELECT", true), ("INSERT", false), ("UPDATE", false), ("REFERENCES", false)]
            }
            Of::Sequence => &[("SELECT", true), ("USAGE", false), ("UPDATE", false)],
            Of::Container => {
                &[("USAGE", true), ("CONNECT", true), ("TEMPORARY", true), ("TEMP", true), ("CREATE", false)]
            }
            Of::Common => &[("USAGE", true), ("EXECUTE", true), ("CREATE", true)],
        }
    }

    /// The number of arguments that name the object.
    fn names(self) -> usize {
        if self == Of::Column { 2 } else { 1 }
    }

    /// The table that the arguments name, if there has to be one.
    pub fn table(self, arguments: &[Value]) -> Option<&str> {
        let at = arguments.len().checked_sub(self.names() + 1)?;
        let table = arguments.get(at).filter(|_| matches!(self, Of::Table | Of::Column | Of::AnyColumn))?;
        table.text().filter(|_| !arguments.contains(&Value::Null))
    }
}

/// Whether a user, or this one, has one of the privileges of the last argument. NULL for an object that does not exist.
pub fn may(data: &Data, arguments: &[Value], of: Of) -> Value {
    let Some((wanted, named)) = arguments.split_last() else { return Value::Null };
    if arguments.contains(&Value::Null) {
        return Value::Null;
    }
    let user = named.len().checked_sub(of.names() + 1).and_then(|_| named.first());
    let role = match user {
        None => data.roles.iter().find(|(name, _)| *name == data.user),
        Some(Value::Text(name)) if name == "public" => return Value::Bool(false),
        Some(Value::Text(name)) => match data.roles.iter().find(|(known, _)| known == name) {
            None => return Value::Missing("role", name.clone()),
            found => found,
        },
        Some(user) => data.roles.iter().find(|(name, _)| Some(data.role_oid(name)) == user.int()),
    };
    let mut is_allowed = false;
    for privilege in wanted.text().unwrap_or_default().split(',') {
        let upper = privilege.trim().to_ascii_uppercase();
        let plain = upper.strip_suffix("WITH GRANT OPTION").map_or(upper.as_str(), str::trim_end);
        let Some((_, reads)) = of.privileges().iter().find(|(known, _)| *known == plain) else {
            return Value::Refused(format!("unrecognized privilege type: \"{}\"", privilege.trim()));
        };
        let may_grant = plain == upper || role.is_some_and(|(_, role)| *role == Role::Admin);
        is_allowed |= may_grant && role.is_some_and(|(_, role)| *reads || *role != Role::Read);
    }
    Value::Bool(is_allowed)
}
