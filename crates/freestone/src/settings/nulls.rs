//! Where NULL is in orders that do not say it: `SET default_null_order = 'nulls_first'`.

use datafusion::common::config::ConfigOptions;

use super::FreestoneSettings;

/// Where NULL is in an order that does not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    First,
    Last,
    /// As the smallest value.
    Smallest,
    /// As the largest value, as in PostgreSQL: the default.
    Largest,
}

impl Nulls {
    pub const ALL: [Nulls; 4] = [Nulls::First, Nulls::Last, Nulls::Smallest, Nulls::Largest];

    /// The name as it is kept, which is DuckDB's.
    pub fn name(self) -> &'static str {
        match self {
            Nulls::First => "nulls_first",
            Nulls::Last => "nulls_last",
            Nulls::Smallest => "nulls_first_on_asc_last_on_desc",
            Nulls::Largest => "nulls_last_on_asc_first_on_desc",
        }
    }

    /// By any of the names that DuckDB takes, in lower case.
    pub fn named(name: &str) -> Option<Nulls> {
        Some(match name.replace([' ', '_'], "").as_str() {
            "nullsfirst" | "nullfirst" | "first" => Nulls::First,
            "nullslast" | "nulllast" | "last" => Nulls::Last,
            "nullsfirstonasclastondesc" | "sqlite" | "mysql" => Nulls::Smallest,
            "nullslastonascfirstondesc" | "postgres" => Nulls::Largest,
            _ => return None,
        })
    }

    pub fn are_first(self, descending: bool) -> bool {
        match self {
            Nulls::First => true,
            Nulls::Last => false,
            Nulls::Smallest => !descending,
            Nulls::Largest => descending,
        }
    }
}

/// What the session's settings say of NULL in orders.
pub(crate) fn nulls(config: &ConfigOptions) -> Nulls {
    let own = config.extensions.get::<FreestoneSettings>();
    own.and_then(|own| Nulls::named(&own.default_null_order)).unwrap_or(Nulls::Largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_kept() {
        for nulls in Nulls::ALL {
            assert_eq!(Nulls::named(nulls.name()), Some(nulls));
        }
        assert_eq!(Nulls::named("nulls first"), Some(Nulls::First));
        assert_eq!(Nulls::named("sqlite").map(|nulls| nulls.are_first(true)), Some(false));
        assert_eq!(Nulls::named("nulls"), None);
    }
}
