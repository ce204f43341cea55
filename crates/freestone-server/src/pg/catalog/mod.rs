//! `pg_catalog`: what PostgreSQL's clients ask of it, as tables and functions of a session.

mod data;
mod functions;
mod information;
mod pg_tables;
mod pg_type;
mod rewrite;
mod tables;
mod without_rows;

use std::sync::{Arc, PoisonError, RwLock};

use freestone::{Extension, Result, Session};

pub use rewrite::rewrite;

use crate::shared::Shared;
use crate::users::Role;
use data::Data;

/// The catalog of one session: the database as it was when a statement last asked.
#[derive(Debug, Clone)]
pub struct Catalog {
    data: Arc<RwLock<Arc<Data>>>,
}

impl Catalog {
    /// Gives a session its catalog, for as long as it lives.
    pub fn install(session: &Session, shared: &Shared, user: &str, role: Role) -> Catalog {
        let mut roles = shared.authority.roles();
        if !roles.iter().any(|(name, _)| name == user) {
            roles.push((user.to_owned(), role));
        }
        let data = Data::new(vec![], roles, user.to_owned());
        let catalog = Catalog { data: Arc::new(RwLock::new(Arc::new(data))) };
        let schema = Arc::new(tables::CatalogSchema::new(catalog.clone()));
        session.extend(Extension {
            schemas: vec![(data::PG_CATALOG.to_owned(), schema)],
            functions: functions::all(&catalog),
        });
        catalog
    }

    fn data(&self) -> Arc<Data> {
        self.data.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the database anew, for a statement that asks about it.
    pub async fn refresh(&self, session: &Session) -> Result<()> {
        let relations = session.relations().await?;
        let old = self.data();
        let new = Arc::new(Data::new(relations, old.roles.clone(), old.user.clone()));
        *self.data.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }
}

/// Ends the name of a column that PostgreSQL lets have the name of another. Clients are told the name before it.
pub const AGAIN: char = '\u{1}';

/// Whether a statement may ask for the catalog.
pub fn is_asked_for(sql: &str) -> bool {
    const SIGNS: [&str; 15] = [
        "pg_",
        "information_schema",
        "::reg",
        "as reg",
        "operator(",
        "operator (",
        "collate",
        "current_",
        "session_user",
        "::name",
        "::oid",
        "::\"char\"",
        "to_reg",
        "_description",
        "array_upper",
    ];
    let lower = sql.to_ascii_lowercase();
    SIGNS.iter().any(|sign| lower.contains(sign))
}
