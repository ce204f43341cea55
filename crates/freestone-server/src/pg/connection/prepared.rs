//! Prepared statements: those of the protocol and those of PREPARE share their names.

use std::sync::Arc;
use std::time::SystemTime;

use arrow::datatypes::DataType;
use freestone::{Description, NamedRelation, Statement};

use super::Connection;
use super::failure::Failure;
use super::work::Work;
use crate::execution::CountedMemory;
use crate::pg::catalog::PreparedRow;
use crate::pg::declared::{self, StoredIn};
use crate::pg::error::PgError;
use crate::pg::numerals;
use crate::pg::types::{self, ColumnType, Type};
use crate::pg::utility::Prepare;
use crate::sqlstate;

/// The maximum number of prepared statements, and of portals, per client.
pub const PREPARED_MAX: usize = 10_000;
/// How often the text of a prepared statement is there: as text, in tokens, and in what is parsed.
const TEXT_COPIES: usize = 4;
/// What a prepared statement or portal takes besides texts and values.
pub const PREPARED_BYTES: usize = 2 << 10;

/// A prepared statement.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub work: Work,
    /// The types of the parameters that the client declared; 0 for those that it did not.
    pub declared: Vec<u32>,
    pub description: Option<Arc<Description>>,
    /// The places of parameters of other types that become PostgreSQL's texts, because they are stored as texts.
    pub as_texts: Vec<usize>,
    pub text: Arc<str>,
    since: SystemTime,
    /// Whether PREPARE made it.
    from_sql: bool,
    /// The memory of the text and what it becomes.
    _memory: Arc<CountedMemory>,
}

impl Prepared {
    /// Its row in `pg_prepared_statements`.
    pub fn shown(&self, name: &str) -> PreparedRow {
        let names = |oid: u32| type_name(oid).unwrap_or_else(|| "unknown".to_owned());
        let described = self.description.as_deref();
        let planned = described.map(|description| description.parameters.as_slice()).unwrap_or_default();
        let parameters = planned.iter().enumerate().map(|(at, planned)| match self.declared.get(at) {
            Some(declared) if *declared != 0 => *declared,
            _ => parameter_oid(planned),
        });
        let schema = described.and_then(|description| description.schema.as_ref());
        let results = schema.map(|schema| schema.fields().iter().map(|f| ColumnType::of_field(f).oid()));
        PreparedRow {
            name: name.to_owned(),
            text: self.text.to_string(),
            since: self.since,
            parameters: parameters.map(names).collect(),
            results: results.map(|oids| oids.map(names).collect()),
            from_sql: self.from_sql,
        }
    }

    /// The types that were declared, as a list for PREPARE; nothing where one was not.
    fn declared_list(&self) -> String {
        match self.declared.iter().map(|oid| type_name(*oid)).collect::<Option<Vec<_>>>() {
            Some(names) if !names.is_empty() => format!(" ({})", names.join(", ")),
            _ => String::new(),
        }
    }
}

impl Connection {
    pub fn new_prepared(&self, mut work: Work, sql: &str, mut declared: Vec<u32>) -> Result<Prepared, PgError> {
        declare_oids(sql, &mut declared);
        self.declare_numerics(&mut work, &mut declared)?;
        self.declare_casts(&work, &mut declared);
        if self.prepared.len() >= PREPARED_MAX {
            let message = format!("there are {PREPARED_MAX} prepared statements");
            return Err(PgError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let bytes = sql.len().saturating_mul(TEXT_COPIES).saturating_add(PREPARED_BYTES);
        let (text, since) = (sql.into(), SystemTime::now());
        let _memory = Arc::new(self.counted("statements", bytes)?);
        Ok(Prepared { work, declared, description: None, as_texts: vec![], text, since, from_sql: false, _memory })
    }

    /// Declares the parameters that a statement casts to NUMERIC without precision, and removes these casts.
    fn declare_numerics(&self, work: &mut Work, declared: &mut Vec<u32>) -> Result<(), PgError> {
        let (Work::Statement(statement) | Work::Declare(_, statement)) = work else { return Ok(()) };
        if !numerals::is_in(&statement.text) || !statement.text.contains('$') {
            return Ok(());
        }
        // Where it cannot be parsed, it is an error when it is planned.
        let Ok(mut parsed) = freestone_sql::parse_statement(&statement.text) else { return Ok(()) };
        let places = numerals::keep_digits_of_parameters(&mut parsed, declared);
        if places.is_empty() {
            return Ok(());
        }
        if let Some(changed) = self.session.parse(&parsed.to_string())?.into_iter().next() {
            *statement = Arc::new(changed);
        }
        places.into_iter().for_each(|at| declare(declared, at, types::NUMERIC.oid));
        Ok(())
    }

    /// Declares the parameters that a statement casts to a type that the engine does not tell.
    fn declare_casts(&self, work: &Work, declared: &mut Vec<u32>) {
        let (Work::Statement(statement) | Work::Declare(_, statement)) = work else { return };
        if !statement.text.contains('$') {
            return;
        }
        // Where it cannot be parsed, it is an error when it is planned.
        let Ok(parsed) = freestone_sql::parse_statement(&statement.text) else { return };
        let is_enum =
            |name: &str| self.session.enum_types().is_ok_and(|types| types.iter().any(|(known, _)| known == name));
        declared::of_casts(&parsed, &is_enum).into_iter().for_each(|(at, oid)| declare(declared, at, oid));
    }

    /// Declares the parameters that a statement stores in columns whose type the engine does not tell, and notes those of
    /// other types that it stores in columns of texts.
    pub fn declare_stored(&self, prepared: &mut Prepared) -> Result<(), Failure> {
        let Work::Statement(statement) = &prepared.work else { return Ok(()) };
        let planned = prepared.description.as_deref().map(|of| of.parameters.as_slice()).unwrap_or_default();
        if planned.is_empty() {
            return Ok(());
        }
        let parsed = freestone_sql::parse_statement(&statement.text).ok();
        let Some((stored, used)) =
            parsed.as_ref().and_then(|parsed| Some((declared::stored(parsed)?, declared::used(parsed))))
        else {
            return Ok(());
        };
        let Some(NamedRelation::Table { schema, .. }) = self.session.named_relation(&stored.table)? else {
            return Ok(());
        };
        let schema = types::with_enums(schema, || self.session.enum_types().unwrap_or_default());
        for (at, column) in stored.columns {
            let field = match &column {
                StoredIn::Named(name) => schema.fields().iter().find(|field| field.name() == name),
                StoredIn::At(at) => schema.fields().get(*at),
            };
            let (Some(field), Some(planned)) = (field, planned.get(at)) else { continue };
            let of_column = ColumnType::of_field(field);
            let oid = match prepared.declared.get(at) {
                Some(oid) if *oid != 0 => *oid,
                _ => parameter_oid(planned),
            };
            if oid == types::TEXT.oid && of_column.oid() != types::TEXT.oid {
                declare(&mut prepared.declared, at, of_column.oid());
            }
            let is_used_once = used.iter().filter(|other| **other == at).count() == 1;
            if is_used_once && is_text(of_column) && !ColumnType::of_oid(oid).is_none_or(is_text) {
                prepared.as_texts.push(at);
            }
        }
        Ok(())
    }

    /// Refuses parameters of types that nobody has here, which could only be guessed.
    pub fn check_declared(&self, declared: &[u32]) -> Result<(), Failure> {
        for (at, oid) in declared.iter().enumerate() {
            if *oid == 0 || *oid == types::UNKNOWN.oid || types::parameter_type(*oid).is_some() {
                continue;
            }
            if !types::is_of_enum(*oid) || !self.has_enum(*oid)? {
                let message = format!("parameter ${} has a type with OID {oid}, which does not exist", at + 1);
                let hint = "declare it with OID 0, and cast it in the statement";
                return Err(PgError::new(sqlstate::UNDEFINED_OBJECT, message).with_hint(hint).into());
            }
        }
        Ok(())
    }

    /// Whether an OID is that of a type of labels of this database, or of its array.
    fn has_enum(&self, oid: u32) -> Result<bool, Failure> {
        let known = self.session.enum_types()?;
        Ok(known.iter().any(|(name, _)| [0, 1].contains(&oid.wrapping_sub(types::enum_oid(name)))))
    }

    /// PREPARE: the engine keeps the statement for EXECUTE, and this connection for Bind.
    pub async fn prepare_named(&mut self, prepare: &Prepare) -> Result<(), Failure> {
        let Prepare { name, types, query, text } = prepare;
        if self.prepared.contains_key(name) {
            return Err(is_prepared(name).into());
        }
        let mut works = self.understand(query).await?;
        let (Some(work @ Work::Statement(_)), true) = (works.pop(), works.is_empty()) else {
            return Err(PgError::unsupported("PREPARE takes SELECT, INSERT, UPDATE, DELETE and MERGE").into());
        };
        let declared: Vec<u32> = types.iter().map(|name| Type::by_sql(name).unwrap_or(0)).collect();
        let work = self.adapted(work, &declared)?;
        let mut prepared = Prepared { from_sql: true, ..self.new_prepared(work, text, declared)? };
        let types = if types.is_empty() { String::new() } else { format!(" ({})", types.join(", ")) };
        if let Work::Statement(statement) = &prepared.work {
            self.engine(&format!("PREPARE {}{types} AS {}", freestone::quote(name), statement.text)).await?;
        }
        self.description(&mut prepared).await?;
        self.prepared.insert(name.clone(), prepared);
        self.replies.complete("PREPARE");
        Ok(())
    }

    /// Lets the engine know a statement that the client has prepared by the protocol, if this statement executes it.
    pub async fn share_prepared(&self, statement: &Statement) -> Result<(), Failure> {
        let Some(name) = statement.executes() else { return Ok(()) };
        let Some(prepared) = self.prepared.get(&name).filter(|_| !self.session.has_prepared(&name)) else {
            return Ok(());
        };
        let Work::Statement(known) = &prepared.work else {
            return Err(PgError::unsupported("EXECUTE takes SELECT, INSERT, UPDATE, DELETE and MERGE").into());
        };
        let sql = format!("PREPARE {}{} AS {}", freestone::quote(&name), prepared.declared_list(), known.text);
        Box::pin(self.engine(&sql)).await
    }

    /// Forgets a prepared statement. Returns whether there was one.
    pub fn close_prepared(&mut self, name: &str) -> bool {
        let ours = self.prepared.remove(name).is_some();
        self.session.forget_prepared(name) || ours
    }

    pub async fn deallocate_all(&mut self) -> Result<(), Failure> {
        self.prepared.clear();
        self.engine("DEALLOCATE ALL").await
    }
}

/// Whether values of a type are sent as they are stored.
fn is_text(of: ColumnType) -> bool {
    !of.is_array && [types::TEXT, types::VARCHAR, types::BPCHAR, types::NAME, types::UNKNOWN].contains(&of.element)
}

/// The name of a type or of its arrays in SQL.
fn type_name(oid: u32) -> Option<String> {
    let of_array = || Type::by_array(oid).map(|element| format!("{}[]", element.sql));
    Type::by_oid(oid).map(|kind| kind.sql.to_owned()).or_else(of_array)
}

pub fn is_prepared(name: &str) -> PgError {
    let message = format!("prepared statement {name:?} exists");
    PgError::new(sqlstate::DUPLICATE_PREPARED_STATEMENT, message).with_hint("DEALLOCATE it first")
}

/// Columns of PostgreSQL's catalog with numbers of objects, which the engine has as BIGINT.
const OIDS: [&str; 9] =
    ["oid", "attrelid", "typelem", "typarray", "typrelid", "typbasetype", "enumtypid", "conrelid", "indrelid"];

/// Declares the parameters as OIDs that a query of the catalog compares with such a column, as in `t.oid = $1`: drivers look up the
/// types that they do not know so, and send four bytes.
fn declare_oids(sql: &str, declared: &mut Vec<u32>) {
    if !sql.contains("pg_") {
        return;
    }
    let mut parts = sql.split('$');
    let mut before = parts.next().unwrap_or_default();
    for part in parts {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let compared = before.trim_end().strip_suffix('=').unwrap_or_default().trim_end();
        let name = compared.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
        let is_oid = OIDS.iter().any(|oid| oid.eq_ignore_ascii_case(name));
        before = part;
        let Some(at) = digits.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) else { continue };
        if is_oid {
            declare(declared, at, types::OID.oid);
        }
    }
}

/// Declares the type of one parameter, unless the client did.
fn declare(declared: &mut Vec<u32>, at: usize, oid: u32) {
    if at >= PARAMETERS_MAX {
        return;
    }
    if declared.len() <= at {
        declared.resize(at + 1, 0);
    }
    if declared[at] == 0 {
        declared[at] = oid;
    }
}

/// The parameters that a message can have.
const PARAMETERS_MAX: usize = u16::MAX as usize;

/// Strings without a type of their own are TEXT, as in PostgreSQL.
pub fn parameter_oid(planned: &DataType) -> u32 {
    match ColumnType::of(planned).oid() {
        oid if oid == types::VARCHAR.oid => types::TEXT.oid,
        oid => oid,
    }
}

pub fn no_statement(name: &str) -> PgError {
    PgError::new(sqlstate::INVALID_SQL_STATEMENT_NAME, format!("there is no prepared statement {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_compared_with_oids_are_oids() {
        let declared = |sql: &str, given: &[u32]| {
            let mut declared = given.to_vec();
            declare_oids(sql, &mut declared);
            declared
        };
        let lookup = "SELECT t.typname FROM pg_catalog.pg_type t WHERE t.oid = $1";
        assert_eq!(declared(lookup, &[]), [26]);
        assert_eq!(declared(lookup, &[20]), [20], "as declared");
        assert_eq!(declared("SELECT 1 FROM pg_enum WHERE enumlabel = $1 AND enumtypid=$2", &[0]), [0, 26]);
        for other in
            ["SELECT $1", "SELECT * FROM t WHERE oid = $1", "SELECT void = $1 FROM pg_type", "SELECT $ FROM pg_type"]
        {
            assert_eq!(declared(other, &[]), [0u32; 0], "{other}");
        }
    }
}
