//! `pg_catalog` for clients of PostgreSQL, as tables and functions of a session.
//!
//! Rows are computed from one snapshot when a statement asks for them. Tables of features that the database does not have
//! are empty. A library that derives such a catalog from DataFusion's would have no keys, indexes or roles, which clients
//! ask for, and each of its releases would decide which version of DataFusion is used here.

mod cell;
mod data;
mod empty_tables;
mod format;
mod functions;
mod information;
mod pg_tables;
mod pg_type;
mod privileges;
mod procedures;
mod rewrite;
mod tables;
mod values;
mod waiting;

use std::sync::{Arc, PoisonError, RwLock};

use freestone::{Extension, Result, Session};

pub use data::{Assigned, CursorRow, PreparedRow};
pub use rewrite::rewrite;

use crate::pg::connection::ChannelChanges;
use crate::pg::names::mentions;
use crate::pg::settings::Settings;
use crate::pg::types;
use crate::sessions::Peers;
use crate::shared::Shared;
use crate::users::Role;
use data::Data;

/// The catalog of one session: the database at the time of the last statement that queried the catalog.
#[derive(Debug, Clone)]
pub struct Catalog {
    data: Arc<RwLock<Arc<Data>>>,
}

impl Catalog {
    /// Adds the catalog to a session, for its lifetime.
    ///
    /// `database` is the name under which the client knows the database.
    pub fn install(
        session: &Session,
        shared: &Shared,
        (user, role, database): (&str, Role, &str),
        number: u64,
        channel_changes: ChannelChanges,
    ) -> Catalog {
        let mut roles = shared.authority.roles();
        if !roles.iter().any(|(name, _)| name == user) {
            roles.push((user.to_owned(), role));
        }
        let (sessions, is_admin) = (shared.sessions.clone(), role == Role::Admin);
        let peers = Peers { sessions, own: number, user: user.to_owned(), is_admin };
        let data = Data {
            database: database.to_owned(),
            channel_changes,
            advisory_locks: shared.advisory_locks.clone(),
            ..Data::new(vec![], vec![], roles, peers)
        };
        let catalog = Catalog { data: Arc::new(RwLock::new(Arc::new(data))) };
        let schema = Arc::new(tables::CatalogSchema::new(catalog.clone()));
        session.extend(Extension {
            schemas: vec![(data::PG_CATALOG.to_owned(), schema)],
            functions: functions::all(&catalog).into_iter().chain([format::function()]).collect(),
            postgres_texts: true,
            ..Extension::default()
        });
        catalog
    }

    /// The settings that `set_config` has assigned and that the connection has not applied yet.
    pub fn assigned(&self) -> Vec<Assigned> {
        self.data().assigned.take()
    }

    fn data(&self) -> Arc<Data> {
        self.data.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the database again, for a statement that queries the catalog.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub async fn refresh(
        &self,
        session: &Session,
        (prepared, cursors): (Vec<PreparedRow>, Vec<CursorRow>),
        settings: Settings,
    ) -> Result<()> {
        let (mut relations, sequences) = (session.relations().await?, session.sequence_relations()?);
        let (old, enums) = (self.data(), session.enum_types()?);
        for relation in &mut relations {
            relation.schema = relation.schema.take().map(|schema| types::with_enums(schema, || enums.clone()));
        }
        let new =
            Data::new(relations, sequences, old.roles.clone(), old.peers.clone()).with_schemas(session.schemas()?);
        let database = old.database.clone();
        let (channel_changes, assigned) = (old.channel_changes.clone(), old.assigned.clone());
        let advisory_locks = old.advisory_locks.clone();
        let new = Arc::new(Data {
            enums,
            prepared,
            cursors,
            database,
            channel_changes,
            advisory_locks,
            assigned,
            settings,
            ..new
        });
        *self.data.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }
}

/// Whether a statement may query the catalog, or what was noted of the session in it.
pub fn is_asked_for(sql: &str) -> bool {
    const SIGNS: [&str; 7] =
        ["pg_", "information_schema", "::reg", "as reg", "to_reg", "current_setting", "current_schema"];
    mentions(sql, &SIGNS)
}
