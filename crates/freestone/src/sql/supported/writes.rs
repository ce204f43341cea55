//! Statements that change rows or define objects, and those of the session.

use datafusion::sql::sqlparser::ast::{
    self, CreateTable, CreateView, Delete, HiveDistributionStyle, Insert, SqliteOnConflict, Statement, Truncate, Update,
};

use super::none_of;
use crate::error::Result;
use crate::sql::spellings::BY_NAME;

pub(super) fn statement(statement: &Statement) -> Result<()> {
    match statement {
        Statement::Insert(insert) => self::insert(insert),
        Statement::Update(update) => self::update(update),
        Statement::Delete(delete) => self::delete(delete),
        Statement::Truncate(truncate) => self::truncate(truncate),
        Statement::CreateTable(create) => create_table(create),
        Statement::CreateView(create) => create_view(create),
        Statement::AlterTable(alter) => alter_table(alter),
        Statement::CreateIndex(create) => create_index(create),
        Statement::CreateSequence {
            // Its name is in the schema of the session then.
            temporary: _,
            owned_by,
            if_not_exists: _,
            name: _,
            data_type: _,
            sequence_options: _,
        } => {
            let is_owned = owned_by.as_ref().is_some_and(|owner| owner.to_string() != "NONE");
            none_of(&[(is_owned, "OWNED BY: SERIAL makes such a sequence")])
        }
        Statement::Drop {
            object_type: _,
            if_exists: _,
            names: _,
            // It is refused if another object depends on the dropped one.
            cascade: _,
            restrict: _,
            purge,
            temporary,
            table,
        } => none_of(&[(*purge, "PURGE"), (*temporary, "DROP TEMPORARY"), (table.is_some(), "ON behind DROP")]),
        Statement::Explain {
            describe_alias: _,
            analyze: _,
            verbose: _,
            query_plan,
            estimate,
            statement: _,
            format: _,
            options,
        } => none_of(&[
            (*query_plan, "EXPLAIN QUERY PLAN"),
            (*estimate, "EXPLAIN ESTIMATE"),
            (options.is_some(), "options of EXPLAIN in parentheses"),
        ])
        .map_err(|error| {
            error.with_hint("the form is EXPLAIN [(ANALYZE, VERBOSE, FORMAT tree|json|traditional)] query")
        }),
        Statement::ShowFunctions { filter: _ } => Ok(()),
        Statement::ShowCreate { obj_type, obj_name: _ } => {
            let known = matches!(obj_type, ast::ShowCreateObject::Table | ast::ShowCreateObject::View);
            none_of(&[(!known, "SHOW CREATE of anything but TABLE and VIEW")])
        }
        Statement::Prepare { name: _, data_types: _, statement: _ } | Statement::Deallocate { name: _, prepare: _ } => {
            Ok(())
        }
        Statement::Execute { name, parameters: _, has_parentheses: _, immediate, into, using, output, default } => {
            none_of(&[
                (name.is_none() || *immediate, "EXECUTE IMMEDIATE"),
                (!into.is_empty(), "EXECUTE … INTO"),
                (!using.is_empty(), "EXECUTE … USING"),
                (*output, "OUTPUT behind EXECUTE"),
                (*default, "DEFAULT behind EXECUTE"),
            ])
            .map_err(|error| error.with_hint("the form is EXECUTE name(value, …)"))
        }
        // Queries are visited separately. Every other statement is refused when it is executed.
        _ => Ok(()),
    }
}

fn insert(insert: &Insert) -> Result<()> {
    let Insert {
        insert_token: _,
        optimizer_hints,
        or,
        ignore,
        into: _,
        table,
        table_alias,
        columns: _,
        overwrite,
        // DEFAULT VALUES has none.
        source: _,
        assignments,
        partitioned,
        after_columns,
        has_table_keyword: _,
        on,
        returning: _,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    let into_table = matches!(table, ast::TableObject::TableName(_));
    let unclear_alias = table_alias.as_ref().is_some_and(|name| !name.explicit && name.alias.value != BY_NAME);
    let several = multi_table_insert_type.is_some()
        || !multi_table_into_clauses.is_empty()
        || !multi_table_when_clauses.is_empty()
        || multi_table_else_clause.is_some();
    none_of(&[
        (output.is_some(), "OUTPUT: RETURNING is the same"),
        (!optimizer_hints.is_empty(), "a hint for the optimizer"),
        (or.is_some_and(|or| !matches!(or, SqliteOnConflict::Replace | SqliteOnConflict::Ignore)), "INSERT OR …"),
        (*ignore, "INSERT IGNORE"),
        (!into_table, "INSERT INTO anything but a table"),
        (unclear_alias, "a name for the table of INSERT without AS"),
        (*overwrite, "INSERT OVERWRITE"),
        (!assignments.is_empty(), "INSERT … SET"),
        (partitioned.is_some() || !after_columns.is_empty(), "PARTITION in INSERT"),
        (matches!(on, Some(ast::OnInsert::DuplicateKeyUpdate(_))), "ON DUPLICATE KEY: write ON CONFLICT DO UPDATE"),
        (on.is_some() && or.is_some(), "INSERT OR … with ON CONFLICT"),
        (*replace_into, "REPLACE INTO: write INSERT OR REPLACE INTO"),
        (priority.is_some(), "a priority of INSERT"),
        (insert_alias.is_some(), "a name for the rows of INSERT"),
        (settings.is_some(), "SETTINGS in INSERT"),
        (format_clause.is_some(), "FORMAT in INSERT"),
        (several, "INSERT into several tables"),
    ])
}

fn update(update: &Update) -> Result<()> {
    let Update {
        update_token: _,
        optimizer_hints,
        table,
        assignments: _,
        from: _,
        selection: _,
        returning: _,
        output,
        or,
        order_by,
        limit,
    } = update;
    none_of(&[
        (output.is_some(), "OUTPUT: RETURNING is the same"),
        (!optimizer_hints.is_empty(), "a hint for the optimizer"),
        (!table.joins.is_empty(), "JOIN in the target of UPDATE: name further tables in FROM"),
        (or.is_some(), "UPDATE OR …"),
        (!order_by.is_empty(), "ORDER BY in UPDATE"),
        (limit.is_some(), "LIMIT in UPDATE"),
    ])
}

fn delete(delete: &Delete) -> Result<()> {
    let Delete {
        delete_token: _,
        optimizer_hints,
        tables,
        from: _,
        using: _,
        selection: _,
        returning: _,
        output,
        order_by,
        limit,
    } = delete;
    none_of(&[
        (output.is_some(), "OUTPUT: RETURNING is the same"),
        (!optimizer_hints.is_empty(), "a hint for the optimizer"),
        (!tables.is_empty(), "DELETE of several tables"),
        (!order_by.is_empty(), "ORDER BY in DELETE"),
        (limit.is_some(), "LIMIT in DELETE"),
    ])
}

fn truncate(truncate: &Truncate) -> Result<()> {
    let Truncate { table_names, partitions, table: _, if_exists: _, identity: _, cascade, on_cluster } = truncate;
    let only = table_names.iter().any(|ast::TruncateTableTarget { name: _, only, has_asterisk: _ }| *only);
    none_of(&[
        (partitions.is_some(), "TRUNCATE of a PARTITION: tables have none"),
        (only, "TRUNCATE ONLY: tables do not inherit"),
        (matches!(cascade, Some(ast::CascadeOption::Cascade)), "CASCADE: keys do not empty other tables"),
        (on_cluster.is_some(), "ON CLUSTER"),
    ])
}

fn create_table(create: &CreateTable) -> Result<()> {
    let CreateTable {
        or_replace: _,
        // Its name is in the schema of the session then.
        temporary: _,
        external,
        dynamic,
        global,
        if_not_exists: _,
        transient,
        volatile,
        iceberg,
        snapshot,
        name: _,
        columns,
        constraints,
        hive_distribution,
        hive_formats,
        // `WITH (…)`, which refuses unknown options and lists the valid ones when it is parsed.
        table_options: _,
        file_format,
        location,
        query: _,
        without_rowid,
        like: _,
        clone,
        version,
        comment,
        // Refused for tables that are not temporary, when their names are resolved.
        on_commit: _,
        on_cluster,
        primary_key,
        order_by,
        partition_by,
        cluster_by,
        clustered_by,
        inherits,
        partition_of,
        for_values,
        strict,
        copy_grants,
        enable_schema_evolution,
        change_tracking,
        data_retention_time_in_days,
        max_data_extension_time_in_days,
        default_ddl_collation,
        with_aggregation_policy,
        with_row_access_policy,
        with_storage_lifecycle_policy,
        with_tags,
        external_volume,
        base_location,
        catalog,
        catalog_sync,
        storage_serialization_policy,
        target_lag,
        warehouse,
        refresh_mode,
        initialize,
        require_user,
        diststyle,
        distkey,
        sortkey,
        backup,
    } = create;
    let formats = hive_formats.as_ref().is_some_and(|formats| *formats != ast::HiveFormat::default());
    let warehouses = [
        enable_schema_evolution.is_some(),
        change_tracking.is_some(),
        data_retention_time_in_days.is_some(),
        max_data_extension_time_in_days.is_some(),
        default_ddl_collation.is_some(),
        with_aggregation_policy.is_some(),
        with_row_access_policy.is_some(),
        with_storage_lifecycle_policy.is_some(),
        with_tags.is_some(),
        external_volume.is_some(),
        base_location.is_some(),
        catalog.is_some(),
        catalog_sync.is_some(),
        storage_serialization_policy.is_some(),
        target_lag.is_some(),
        warehouse.is_some(),
        refresh_mode.is_some(),
        initialize.is_some(),
        *require_user,
        diststyle.is_some(),
        distkey.is_some(),
        sortkey.is_some(),
        backup.is_some(),
    ];
    none_of(&[
        (*transient || *volatile || *global == Some(true), "a TRANSIENT, VOLATILE or GLOBAL table"),
        (*external, "CREATE EXTERNAL TABLE: files are read by their names, FROM 'file.parquet'"),
        (*dynamic || *iceberg || *snapshot, "a DYNAMIC, ICEBERG or SNAPSHOT table"),
        (!matches!(hive_distribution, HiveDistributionStyle::NONE), "PARTITIONED BY: WITH (sort = '…') orders a table"),
        (formats || file_format.is_some() || location.is_some(), "the format or place of a table's files"),
        (*without_rowid, "WITHOUT ROWID"),
        (clone.is_some() || version.is_some(), "CLONE"),
        (comment.is_some(), "COMMENT"),
        (on_cluster.is_some(), "ON CLUSTER"),
        (primary_key.is_some() || order_by.is_some(), "PRIMARY KEY and ORDER BY behind the columns"),
        (partition_by.is_some() || partition_of.is_some() || for_values.is_some(), "PARTITION BY and PARTITION OF"),
        (cluster_by.is_some() || clustered_by.is_some(), "CLUSTER BY: write WITH (cluster = '…')"),
        (inherits.is_some(), "INHERITS"),
        (*strict, "STRICT"),
        (*copy_grants, "COPY GRANTS"),
        (warehouses.contains(&true), "an option behind the columns that is not in WITH (…)"),
    ])?;
    constraints.iter().try_for_each(constraint)?;
    columns.iter().flat_map(|column| &column.options).try_for_each(|option| {
        let ast::ColumnOptionDef { name: _, option } = option;
        match option {
            ast::ColumnOption::PrimaryKey(key) => primary(key),
            ast::ColumnOption::ForeignKey(key) => foreign(key),
            ast::ColumnOption::Unique(key) => unique(key),
            // Everything except NULL and NOT NULL is refused when keys are read from the columns.
            _ => Ok(()),
        }
    })
}

fn constraint(constraint: &ast::TableConstraint) -> Result<()> {
    match constraint {
        ast::TableConstraint::PrimaryKey(key) => primary(key),
        ast::TableConstraint::ForeignKey(key) => foreign(key),
        ast::TableConstraint::Unique(key) => unique(key),
        // Refused when the keys of a table are read from the statement.
        _ => Ok(()),
    }
}

fn primary(key: &ast::PrimaryKeyConstraint) -> Result<()> {
    let ast::PrimaryKeyConstraint { name: _, index_name, index_type, columns, index_options, characteristics } = key;
    let ordered = columns.iter().any(|ast::IndexColumn { column, operator_class }| {
        let ast::OrderByExpr { expr: _, options, with_fill } = column;
        options.asc.is_some() || options.nulls_first.is_some() || with_fill.is_some() || operator_class.is_some()
    });
    none_of(&[
        (index_name.is_some() || index_type.is_some() || !index_options.is_empty(), "an index of a PRIMARY KEY"),
        (ordered, "an order in a PRIMARY KEY"),
    ])?;
    timing(characteristics.as_ref())
}

fn unique(key: &ast::UniqueConstraint) -> Result<()> {
    let ast::UniqueConstraint {
        name: _,
        index_name,
        index_type_display: _,
        index_type,
        columns,
        index_options,
        characteristics,
        nulls_distinct,
    } = key;
    let has_index = index_name.is_some() || index_type.is_some() || !index_options.is_empty();
    let ordered = columns.iter().any(|ast::IndexColumn { column, operator_class }| {
        let ast::OrderByExpr { expr: _, options, with_fill } = column;
        options.asc.is_some() || options.nulls_first.is_some() || with_fill.is_some() || operator_class.is_some()
    });
    none_of(&[
        (has_index, "an index of UNIQUE"),
        (ordered, "an order in UNIQUE"),
        (matches!(nulls_distinct, ast::NullsDistinctOption::NotDistinct), "NULLS NOT DISTINCT"),
    ])?;
    timing(characteristics.as_ref())
}

/// Constraints hold at the end of each statement.
fn timing(characteristics: Option<&ast::ConstraintCharacteristics>) -> Result<()> {
    // What can be deferred and is not holds at the end of each statement, too.
    let Some(ast::ConstraintCharacteristics { deferrable: _, initially, enforced: _ }) = characteristics else {
        return Ok(());
    };
    let deferred = matches!(initially, Some(ast::DeferrableInitial::Deferred));
    none_of(&[(deferred, "DEFERRABLE: constraints hold at the end of each statement")])
}

fn foreign(key: &ast::ForeignKeyConstraint) -> Result<()> {
    let ast::ForeignKeyConstraint {
        name: _,
        index_name,
        columns: _,
        foreign_table: _,
        referred_columns: _,
        on_delete,
        on_update,
        match_kind,
        characteristics,
    } = key;
    let acts = |action: &Option<ast::ReferentialAction>| {
        use ast::ReferentialAction::{NoAction, Restrict};
        action.as_ref().is_some_and(|action| !matches!(action, NoAction | Restrict))
    };
    none_of(&[
        (index_name.is_some(), "an index of a FOREIGN KEY"),
        (acts(on_delete), "ON DELETE CASCADE and SET in a FOREIGN KEY"),
        (acts(on_update), "ON UPDATE CASCADE and SET in a FOREIGN KEY"),
        (match_kind.is_some(), "MATCH of a FOREIGN KEY"),
    ])?;
    timing(characteristics.as_ref())
}

fn alter_table(alter: &ast::AlterTable) -> Result<()> {
    let ast::AlterTable {
        name: _,
        if_exists: _,
        only: _,
        // Those that are not available are refused when they are executed.
        operations: _,
        location,
        on_cluster,
        table_type,
        end_token: _,
    } = alter;
    none_of(&[
        (location.is_some(), "SET LOCATION"),
        (on_cluster.is_some(), "ON CLUSTER"),
        (table_type.is_some(), "ALTER of an ICEBERG, DYNAMIC or EXTERNAL table"),
    ])
}

fn create_index(create: &ast::CreateIndex) -> Result<()> {
    let ast::CreateIndex {
        name: _,
        table_name: _,
        // Every kind of index is an ordered one.
        using: _,
        columns: _,
        unique: _,
        concurrently: _,
        if_not_exists: _,
        include,
        nulls_distinct,
        with: _,
        predicate,
        index_options: _,
        alter_options,
    } = create;
    none_of(&[
        (!include.is_empty(), "INCLUDE of an index"),
        (*nulls_distinct == Some(false), "NULLS NOT DISTINCT"),
        (predicate.is_some(), "WHERE of an index, which has all rows,"),
        (!alter_options.is_empty(), "ALGORITHM and LOCK of an index"),
    ])
}

fn create_view(create: &CreateView) -> Result<()> {
    let CreateView {
        or_alter,
        or_replace: _,
        materialized,
        secure,
        name: _,
        name_before_not_exists: _,
        columns,
        query: _,
        options,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists: _,
        // Its name is in the schema of the session then.
        temporary: _,
        copy_grants,
        to,
        params,
    } = create;
    let typed = columns
        .iter()
        .any(|ast::ViewColumnDef { name: _, data_type, options }| data_type.is_some() || options.is_some());
    none_of(&[
        (*materialized, "a MATERIALIZED view"),
        (*or_alter, "CREATE OR ALTER: write CREATE OR REPLACE"),
        (*secure, "a SECURE view"),
        (typed, "a type or option of a view's column"),
        (!matches!(options, ast::CreateTableOptions::None), "WITH and OPTIONS of a view"),
        (!cluster_by.is_empty(), "CLUSTER BY of a view"),
        (comment.is_some(), "COMMENT"),
        (*with_no_schema_binding, "WITH NO SCHEMA BINDING"),
        (*copy_grants, "COPY GRANTS"),
        (to.is_some(), "TO behind a view's name"),
        (params.is_some(), "ALGORITHM, DEFINER and SQL SECURITY"),
    ])
}
