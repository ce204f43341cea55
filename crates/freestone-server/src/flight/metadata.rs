//! The metadata of the server and the database for clients of Flight SQL.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, UInt8Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{Nullable, Searchable, SqlInfo, XdbcDataType};
use freestone::Relation;

pub const CATALOG: &str = "freestone";
pub const SCHEMA: &str = "public";

/// The action for referencing rows of foreign keys, which are not enforced.
const NO_ACTION: u8 = 3;

/// The results of GetSqlInfo that do not depend on the server.
///
/// # Errors
///
/// An array cannot be built.
pub fn sql_info(read_only: bool) -> Result<SqlInfoData, arrow::error::ArrowError> {
    let mut info = SqlInfoDataBuilder::new();
    server_info(&mut info, read_only);
    words_info(&mut info);
    abilities_info(&mut info);
    limits_info(&mut info);
    info.build().map_err(|error| arrow::error::ArrowError::ExternalError(Box::new(error)))
}

fn server_info(info: &mut SqlInfoDataBuilder, read_only: bool) {
    info.append(SqlInfo::FlightSqlServerName, "Freestone");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.3");
    info.append(SqlInfo::FlightSqlServerReadOnly, read_only);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    // SQL_SUPPORTED_TRANSACTION_SAVEPOINT: transactions, and savepoints in them.
    info.append(SqlInfo::FlightSqlServerTransaction, 2i32);
    info.append(SqlInfo::FlightSqlServerCancel, true);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    info.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    info.append(SqlInfo::FlightSqlServerStatementTimeout, 0i32);
    info.append(SqlInfo::FlightSqlServerTransactionTimeout, 0i32);
}

fn words_info(info: &mut SqlInfoDataBuilder) {
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, true);
    // Unquoted names are folded to lower case. Quoted names keep their case.
    info.append(SqlInfo::SqlIdentifierCase, 3i32);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlQuotedIdentifierCase, 1i32);
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.append(SqlInfo::SqlNullOrdering, 0i32);
    info.append(SqlInfo::SqlKeywords, &["DESIGN", "VACUUM", "CHECK", "ADVISE", "CALIBRATE", "WHATIF"][..]);
    info.append(
        SqlInfo::SqlNumericFunctions,
        &["abs", "ceil", "floor", "round", "sqrt", "power", "ln", "log", "mod"][..],
    );
    info.append(
        SqlInfo::SqlStringFunctions,
        &["length", "lower", "upper", "substr", "trim", "replace", "concat", "strpos"][..],
    );
    info.append(SqlInfo::SqlSystemFunctions, &["coalesce", "nullif", "version"][..]);
    info.append(SqlInfo::SqlDatetimeFunctions, &["now", "current_date", "date_trunc", "date_part", "extract"][..]);
    info.append(SqlInfo::SqlSearchStringEscape, "\\");
    info.append(SqlInfo::SqlExtraNameCharacters, "");
    info.append(SqlInfo::SqlSchemaTerm, "schema");
    info.append(SqlInfo::SqlProcedureTerm, "procedure");
    info.append(SqlInfo::SqlCatalogTerm, "database");
}

fn abilities_info(info: &mut SqlInfoDataBuilder) {
    for name in [
        SqlInfo::SqlSupportsColumnAliasing,
        SqlInfo::SqlNullPlusNullIsNull,
        SqlInfo::SqlSupportsTableCorrelationNames,
        SqlInfo::SqlSupportsExpressionsInOrderBy,
        SqlInfo::SqlSupportsOrderByUnrelated,
        SqlInfo::SqlSupportsLikeEscapeClause,
        SqlInfo::SqlSupportsNonNullableColumns,
        SqlInfo::SqlCatalogAtStart,
        SqlInfo::SqlCorrelatedSubqueriesSupported,
        SqlInfo::SqlTransactionsSupported,
        SqlInfo::SqlSavepointsSupported,
    ] {
        info.append(name, true);
    }
    for name in [
        SqlInfo::SqlSupportsDifferentTableCorrelationNames,
        SqlInfo::SqlSupportsIntegrityEnhancementFacility,
        SqlInfo::SqlSelectForUpdateSupported,
        SqlInfo::SqlStoredProceduresSupported,
        SqlInfo::SqlDataDefinitionCausesTransactionCommit,
        SqlInfo::SqlDataDefinitionsInTransactionsIgnored,
        SqlInfo::SqlBatchUpdatesSupported,
        SqlInfo::SqlNamedParametersSupported,
        SqlInfo::SqlLocatorsUpdateCopy,
        SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported,
    ] {
        info.append(name, false);
    }
    // Bits of the enumerations of Flight SQL.
    info.append(SqlInfo::SqlSupportsConvert, std::collections::HashMap::<i32, Vec<i32>>::new());
    info.append(SqlInfo::SqlSupportedGroupBy, 0b11i32);
    info.append(SqlInfo::SqlSupportedGrammar, 0b111i32);
    info.append(SqlInfo::SqlAnsi92SupportedLevel, 0b1i32);
    info.append(SqlInfo::SqlOuterJoinsSupportLevel, 0b110i32);
    info.append(SqlInfo::SqlSchemasSupportedActions, 0b1i32);
    info.append(SqlInfo::SqlCatalogsSupportedActions, 0b1i32);
    info.append(SqlInfo::SqlSupportedPositionedCommands, 0i32);
    info.append(SqlInfo::SqlSupportedSubqueries, 0b1111i32);
    info.append(SqlInfo::SqlSupportedUnions, 0b11i32);
    // The JDBC driver of Apache Arrow reads this value as a long.
    info.append(SqlInfo::SqlDefaultTransactionIsolation, 3i64);
    info.append(SqlInfo::SqlSupportedTransactionsIsolationLevels, 0b1110i32);
    info.append(SqlInfo::SqlSupportedResultSetTypes, 0b10i32);
    info.append(SqlInfo::SqlSupportedConcurrenciesForResultSetUnspecified, 0b1i32);
    info.append(SqlInfo::SqlSupportedConcurrenciesForResultSetForwardOnly, 0b10i32);
    info.append(SqlInfo::SqlSupportedConcurrenciesForResultSetScrollSensitive, 0i32);
    info.append(SqlInfo::SqlSupportedConcurrenciesForResultSetScrollInsensitive, 0i32);
}

/// Clients interpret zero as no limit, or an unknown one.
fn limits_info(info: &mut SqlInfoDataBuilder) {
    for name in [
        SqlInfo::SqlMaxBinaryLiteralLength,
        SqlInfo::SqlMaxCharLiteralLength,
        SqlInfo::SqlMaxColumnNameLength,
        SqlInfo::SqlMaxColumnsInGroupBy,
        SqlInfo::SqlMaxColumnsInIndex,
        SqlInfo::SqlMaxColumnsInOrderBy,
        SqlInfo::SqlMaxColumnsInSelect,
        SqlInfo::SqlMaxColumnsInTable,
        SqlInfo::SqlMaxConnections,
        SqlInfo::SqlMaxCursorNameLength,
        SqlInfo::SqlMaxIndexLength,
        SqlInfo::SqlDbSchemaNameLength,
        SqlInfo::SqlMaxProcedureNameLength,
        SqlInfo::SqlMaxCatalogNameLength,
        SqlInfo::SqlMaxRowSize,
        SqlInfo::SqlMaxStatementLength,
        SqlInfo::SqlMaxStatements,
        SqlInfo::SqlMaxTableNameLength,
        SqlInfo::SqlMaxTablesInSelect,
        SqlInfo::SqlMaxUsernameLength,
    ] {
        info.append(name, 0i64);
    }
    info.append(SqlInfo::SqlMaxRowSizeIncludesBlobs, true);
}

/// The column types, for GetXdbcTypeInfo.
///
/// # Errors
///
/// An array cannot be built.
pub fn type_info() -> Result<XdbcTypeInfoData, arrow::error::ArrowError> {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, kind, size, quoted, numeric) in [
        ("BOOLEAN", XdbcDataType::XdbcBit, 1, false, None),
        ("TINYINT", XdbcDataType::XdbcTinyint, 3, false, Some(10)),
        ("SMALLINT", XdbcDataType::XdbcSmallint, 5, false, Some(10)),
        ("INTEGER", XdbcDataType::XdbcInteger, 10, false, Some(10)),
        ("BIGINT", XdbcDataType::XdbcBigint, 19, false, Some(10)),
        ("REAL", XdbcDataType::XdbcReal, 24, false, Some(2)),
        ("DOUBLE", XdbcDataType::XdbcDouble, 53, false, Some(2)),
        ("DECIMAL", XdbcDataType::XdbcDecimal, 38, false, Some(10)),
        ("DATE", XdbcDataType::XdbcDate, 10, true, None),
        ("TIME", XdbcDataType::XdbcTime, 15, true, None),
        ("TIMESTAMP", XdbcDataType::XdbcTimestamp, 26, true, None),
        ("VARCHAR", XdbcDataType::XdbcVarchar, i32::MAX, true, None),
        ("BINARY", XdbcDataType::XdbcVarbinary, i32::MAX, true, None),
    ] {
        types.append(XdbcTypeInfo {
            type_name: name.into(),
            data_type: kind,
            column_size: Some(size),
            literal_prefix: quoted.then(|| "'".into()),
            literal_suffix: quoted.then(|| "'".into()),
            create_params: (name == "DECIMAL").then(|| vec!["precision".into(), "scale".into()]),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: name == "VARCHAR",
            searchable: Searchable::Full,
            unsigned_attribute: numeric.map(|_| false),
            fixed_prec_scale: false,
            auto_increment: Some(false),
            local_type_name: Some(name.into()),
            minimum_scale: (name == "DECIMAL").then_some(0),
            maximum_scale: (name == "DECIMAL").then_some(38),
            sql_data_type: kind,
            datetime_subcode: None,
            num_prec_radix: numeric,
            interval_precision: None,
        });
    }
    types.build().map_err(|error| arrow::error::ArrowError::ExternalError(Box::new(error)))
}

fn text(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable)
}

pub static PRIMARY_KEYS: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("key_name", true),
    ]))
});

/// The columns of a table's primary key.
///
/// # Errors
///
/// An array cannot be built.
pub fn primary_keys(relations: &[Relation], table: &str) -> Result<RecordBatch, arrow::error::ArrowError> {
    let found = relations.iter().find(|relation| relation.name == table);
    let (columns, name) = found.map_or((&[][..], ""), |of| (&of.primary_key, &of.primary_key_name));
    let same = |value: &str| Arc::new(StringArray::from(vec![value; columns.len()])) as ArrayRef;
    let names: ArrayRef = Arc::new(columns.iter().map(Some).collect::<StringArray>());
    let places: ArrayRef = Arc::new((1..=columns.len() as i32).collect::<Int32Array>());
    let arrays = vec![same(CATALOG), same(SCHEMA), same(table), names, places, same(name)];
    RecordBatch::try_new(PRIMARY_KEYS.clone(), arrays)
}

pub static FOREIGN_KEYS: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
});

/// The foreign keys of the table `from` that refer to the table `to`. `None` means any table.
///
/// # Errors
///
/// An array cannot be built.
pub fn foreign_keys(
    relations: &[Relation],
    from: Option<&str>,
    to: Option<&str>,
) -> Result<RecordBatch, arrow::error::ArrowError> {
    type Row = (String, String, String, String, i32, String, Option<String>);
    let mut rows: Vec<Row> = vec![];
    for relation in relations.iter().filter(|relation| from.is_none_or(|name| name == relation.name)) {
        for key in relation.foreign_keys.iter().filter(|key| to.is_none_or(|name| name == key.table)) {
            let to = relations.iter().find(|relation| relation.name == key.table);
            let to = to.and_then(|to| to.key_name(&key.referenced)).map(str::to_owned);
            for (at, (column, referenced)) in key.columns.iter().zip(&key.referenced).enumerate() {
                let (pk, fk) = (key.table.clone(), relation.name.clone());
                rows.push((pk, referenced.clone(), fk, column.clone(), at as i32 + 1, key.name.clone(), to.clone()));
            }
        }
    }
    let same = |value: &str| Arc::new(StringArray::from(vec![value; rows.len()])) as ArrayRef;
    let texts = |values: Vec<String>| Arc::new(StringArray::from(values)) as ArrayRef;
    let rules: ArrayRef = Arc::new(UInt8Array::from(vec![NO_ACTION; rows.len()]));
    let arrays = vec![
        same(CATALOG),
        same(SCHEMA),
        texts(rows.iter().map(|row| row.0.clone()).collect()),
        texts(rows.iter().map(|row| row.1.clone()).collect()),
        same(CATALOG),
        same(SCHEMA),
        texts(rows.iter().map(|row| row.2.clone()).collect()),
        texts(rows.iter().map(|row| row.3.clone()).collect()),
        Arc::new(rows.iter().map(|row| row.4).collect::<Int32Array>()),
        texts(rows.iter().map(|row| row.5.clone()).collect()),
        Arc::new(rows.iter().map(|row| row.6.as_deref()).collect::<StringArray>()),
        rules.clone(),
        rules,
    ];
    RecordBatch::try_new(FOREIGN_KEYS.clone(), arrays)
}
