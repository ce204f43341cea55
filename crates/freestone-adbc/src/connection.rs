//! Connections: their options, and their metadata of the database.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::error::Result;
use adbc_core::options::{InfoCode, IsolationLevel, ObjectDepth, OptionConnection, OptionValue};
use adbc_core::{CancelHandle, Optionable};
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::Schema;
use freestone::{Access, Strings};
use freestone_wire::client::Client;

use crate::database::{FreestoneDatabase, Place};
use crate::error::{not_found, not_implemented, state, wire};
use crate::link::{Backend, Link};
use crate::options::{text, truth, unknown};
use crate::runtime::{Cancel, Lane, Signals};
use crate::statement::FreestoneStatement;
use crate::{CATALOG, SCHEMA, info, objects, statistics};

/// The options of connections.
const OPTIONS: [&str; 6] = [
    "adbc.connection.autocommit",
    "adbc.connection.readonly",
    "adbc.connection.catalog",
    "adbc.connection.db_schema",
    "adbc.connection.transaction.isolation_level",
    VIEWS,
];
const VIEWS: &str = "freestone.string_views";

/// A connection to a database, with settings of its own (`SET …`).
pub struct FreestoneConnection {
    link: Arc<Link>,
    read_only: bool,
    /// Whether every statement is a transaction of its own. Otherwise one is always open.
    autocommit: bool,
    /// The name of the isolation level of transactions to come.
    level: String,
}

type Reader = Box<dyn RecordBatchReader + Send + 'static>;

impl FreestoneConnection {
    pub(crate) fn open(
        database: &FreestoneDatabase,
        given: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<Self> {
        let (mut read_only, mut strings) = (false, database.strings);
        let mut later = vec![];
        for (key, value) in given {
            match key.as_ref() {
                "adbc.connection.readonly" => read_only = truth(key.as_ref(), &value)?,
                VIEWS => strings = Strings::views(truth(VIEWS, &value)?),
                _ => later.push((key, value)),
            }
        }
        // The level comes before the first transaction.
        later.sort_by_key(|(key, _)| *key == OptionConnection::AutoCommit);
        let (lane, cancel) = (Lane::on(database.threads.clone()), Cancel::default());
        let backend = match &database.place {
            Place::Embedded(database) => {
                let access = Access { write: !read_only, ..Access::default() };
                Backend::Embedded(Box::new(database.session_with(access)))
            }
            Place::Server(_) if read_only => {
                return Err(not_implemented(
                    "adbc.connection.readonly is for databases in this process",
                    "log in as a user of the server whose role is read",
                ));
            }
            Place::Server(address) => {
                let address = (**address).clone();
                let connecting = async move { Client::connect_to(address).await.map_err(wire) };
                Backend::Remote(lane.wait(Signals::of(&[&cancel]), connecting)?)
            }
        };
        let link = Arc::new(Link { backend, lane, cancel, strings });
        let mut opened =
            FreestoneConnection { link, read_only, autocommit: true, level: IsolationLevel::Default.into() };
        later.into_iter().try_for_each(|(key, value)| opened.set_option(key, value))?;
        Ok(opened)
    }

    fn command(&self, text: String) -> Result<()> {
        self.link.wait(|link| async move { link.command(&text).await.map(|_| ()) })
    }

    fn begin(&self) -> Result<()> {
        let committed = [IsolationLevel::ReadCommitted, IsolationLevel::ReadUncommitted].map(String::from);
        let level = if committed.contains(&self.level) { "READ COMMITTED" } else { "REPEATABLE READ" };
        self.command(format!("BEGIN ISOLATION LEVEL {level}"))
    }

    /// Ends the open transaction, and begins the next one.
    fn end(&self, statement: &str) -> Result<()> {
        if self.autocommit {
            return Err(state(format!("{statement}: autocommit is on, so there is no transaction")));
        }
        let ended = self.command(statement.to_owned());
        self.begin()?;
        ended
    }

    fn set_autocommit(&mut self, wanted: bool) -> Result<()> {
        match (self.autocommit, wanted) {
            (true, false) => self.begin()?,
            (false, true) => {
                self.autocommit = true;
                return self.command("COMMIT".into());
            }
            _ => {}
        }
        self.autocommit = wanted;
        Ok(())
    }

    /// Chooses the level of the transactions to come.
    fn set_level(&mut self, name: &str) -> Result<()> {
        let levels = [
            IsolationLevel::Default,
            IsolationLevel::Snapshot,
            IsolationLevel::RepeatableRead,
            IsolationLevel::ReadCommitted,
            IsolationLevel::ReadUncommitted,
        ];
        if !levels.map(String::from).iter().any(|level| level == name) {
            return Err(not_implemented(
                format!("isolation level {name} is not available"),
                "the levels are snapshot, which is the default, repeatable read and read committed",
            ));
        }
        self.level = name.to_owned();
        Ok(())
    }

    fn reader(&self, batch: RecordBatch) -> Reader {
        let schema = batch.schema();
        Box::new(RecordBatchIterator::new([Ok(batch)], schema))
    }
}

/// Checks the name of the catalog or the schema. There is only one of each, which the empty name denotes, too.
///
/// # Errors
///
/// Another name.
pub fn named(what: &str, given: &str, only: &str) -> Result<()> {
    match given.is_empty() || given == only {
        true => Ok(()),
        false => Err(not_found(format!("no {what} {given}; the only one is {only}"))),
    }
}

impl Optionable for FreestoneConnection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> Result<()> {
        match key.as_ref() {
            name @ "adbc.connection.readonly" => match truth(name, &value)? == self.read_only {
                true => Ok(()),
                false => Err(state("adbc.connection.readonly is chosen before the connection is opened")),
            },
            VIEWS => match truth(VIEWS, &value)? == self.link.strings.are_views() {
                true => Ok(()),
                false => Err(state(format!("{VIEWS} is chosen before the connection is opened"))),
            },
            name => match &key {
                OptionConnection::AutoCommit => self.set_autocommit(truth(name, &value)?),
                OptionConnection::CurrentCatalog => named("catalog", &text(name, &value)?, CATALOG),
                OptionConnection::CurrentSchema => named("schema", &text(name, &value)?, SCHEMA),
                OptionConnection::IsolationLevel => self.set_level(&text(name, &value)?),
                _ => Err(unknown("a connection", name, OPTIONS)),
            },
        }
    }

    fn get_option_string(&self, key: OptionConnection) -> Result<String> {
        match &key {
            OptionConnection::AutoCommit => Ok(self.autocommit.to_string()),
            OptionConnection::ReadOnly => Ok(self.read_only.to_string()),
            OptionConnection::CurrentCatalog => Ok(CATALOG.into()),
            OptionConnection::CurrentSchema => Ok(SCHEMA.into()),
            OptionConnection::IsolationLevel => Ok(self.level.clone()),
            other if other.as_ref() == VIEWS => Ok(self.link.strings.are_views().to_string()),
            other => Err(unknown("a connection", other.as_ref(), OPTIONS)),
        }
    }

    fn get_option_bytes(&self, key: OptionConnection) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionConnection) -> Result<i64> {
        self.get_option_string(key.clone())?;
        Err(not_found(format!("option {} is no number", key.as_ref())))
    }

    fn get_option_double(&self, key: OptionConnection) -> Result<f64> {
        self.get_option_string(key.clone())?;
        Err(not_found(format!("option {} is no number", key.as_ref())))
    }
}

impl adbc_core::Connection for FreestoneConnection {
    type StatementType = FreestoneStatement;

    fn new_statement(&mut self) -> Result<FreestoneStatement> {
        Ok(FreestoneStatement::new(self.link.clone()))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(self.link.cancel.clone())
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> Result<Reader> {
        info::batch(&self.link, codes).map(|batch| self.reader(batch))
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> Result<Reader> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let wanted = objects::ObjectFilter {
            depth,
            catalog: owned(catalog),
            schema: owned(db_schema),
            table: owned(table_name),
            types: table_type.map(|types| types.into_iter().map(str::to_owned).collect()),
            column: owned(column_name),
        };
        let batch = self.link.wait(|link| objects::batch(link, wanted))?;
        Ok(self.reader(batch))
    }

    fn get_table_schema(&self, catalog: Option<&str>, db_schema: Option<&str>, table_name: &str) -> Result<Schema> {
        named("catalog", catalog.unwrap_or_default(), CATALOG)?;
        named("schema", db_schema.unwrap_or_default(), SCHEMA)?;
        let table = table_name.to_owned();
        let schema = self.link.wait(|link| async move { objects::table_schema(&link, &table).await })?;
        Ok(self.link.strings.schema(&schema).as_ref().clone())
    }

    fn get_table_types(&self) -> Result<Reader> {
        objects::table_types().map(|batch| self.reader(batch))
    }

    fn get_statistic_names(&self) -> Result<Reader> {
        statistics::names().map(|batch| self.reader(batch))
    }

    fn get_statistics(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        approximate: bool,
    ) -> Result<Reader> {
        let hidden = !objects::matches(catalog, CATALOG) || !objects::matches(db_schema, SCHEMA);
        let table = table_name.map(str::to_owned);
        let work = |link| async move {
            if hidden { statistics::none() } else { statistics::batch(link, table, approximate).await }
        };
        let batch = self.link.wait(work)?;
        Ok(self.reader(batch))
    }

    fn commit(&mut self) -> Result<()> {
        self.end("COMMIT")
    }

    fn rollback(&mut self) -> Result<()> {
        self.end("ROLLBACK")
    }

    fn read_partition(&self, _: impl AsRef<[u8]>) -> Result<Reader> {
        Err(not_implemented("results are not partitioned", "execute the statement"))
    }
}
