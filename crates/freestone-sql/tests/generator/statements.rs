//! Random statements.

use freestone_sql::tree::*;

use super::{SPAN, Source};

const DEPTH: usize = 3;

impl Source<'_> {
    pub fn statement(&mut self) -> StatementKind {
        match self.choose(13) {
            1 => StatementKind::Write(Box::new(Write::Insert(self.insert()))),
            2 => StatementKind::Write(Box::new(Write::Update(self.update()))),
            3 => StatementKind::Write(Box::new(Write::Delete(self.delete()))),
            4 => StatementKind::Write(Box::new(Write::Merge(self.merge()))),
            5 => StatementKind::CreateTable(Box::new(self.create_table())),
            6 => StatementKind::AlterTable(AlterTable {
                if_exists: self.flag(),
                table: self.object_name(),
                actions: self.some(1, |source| AlterAction { kind: source.alter(), span: SPAN }),
            }),
            7 => StatementKind::CreateView(CreateView {
                or_replace: self.flag(),
                temporary: self.flag(),
                if_not_exists: self.flag(),
                name: self.object_name(),
                columns: self.some(0, Self::name),
                query: Box::new(self.query(DEPTH)),
            }),
            10 => StatementKind::CreateMaterializedView(CreateMaterializedView {
                or_replace: self.flag(),
                if_not_exists: self.flag(),
                name: self.object_name(),
                columns: self.some(0, Self::name),
                options: self.some(0, Self::option),
                query: Box::new(self.query(DEPTH)),
                with_no_data: self.flag(),
            }),
            11 => StatementKind::RefreshView(RefreshView {
                concurrently: self.flag(),
                name: self.object_name(),
                with_no_data: self.flag(),
            }),
            8 => StatementKind::CopyFrom(CopyFrom {
                table: self.object_name(),
                columns: self.some(0, Self::name),
                path: self.maybe(|source| source.text().value),
                options: self.some(0, Self::option),
            }),
            12 => StatementKind::CopyTo(self.copy_to()),
            _ => StatementKind::Query(Box::new(self.query(DEPTH))),
        }
    }

    fn copy_to(&mut self) -> CopyTo {
        CopyTo {
            source: match self.flag() {
                true => CopySource::Table(self.object_name(), self.some(0, Self::name)),
                false => CopySource::Query(Box::new(self.query(1))),
            },
            target: match self.choose(3) {
                0 => CopyTarget::Client,
                1 => CopyTarget::Computed(Box::new(self.expression(1))),
                _ => CopyTarget::File(self.text().value),
            },
            options: self.some(0, Self::option),
            order: self.some(0, |source| source.sort_key(1)),
        }
    }

    fn returning(&mut self) -> Vec<SelectItem> {
        self.some(0, |source| source.item(1))
    }

    fn value_or_default(&mut self) -> Expr {
        match self.choose(3) {
            2 => Expr { kind: ExprKind::Default, span: SPAN },
            _ => self.expression(1),
        }
    }

    fn insert(&mut self) -> Insert {
        let rows = self.maybe(|source| match source.flag() {
            true => source.query(2),
            false => {
                let rows = source.some(1, |source| source.some(1, Self::value_or_default));
                let body = QueryBody::Values(rows);
                Query { with: None, body, order_by: None, limit: None, offset: None, span: SPAN }
            }
        });
        Insert {
            with: None,
            table: self.object_name(),
            alias: self.maybe(Self::name),
            columns: self.some(0, Self::name),
            by_name: self.flag(),
            overriding_system: self.maybe(Self::flag),
            rows: rows.map(Box::new),
            on_conflict: self.maybe(Self::on_conflict),
            returning: self.returning(),
        }
    }

    fn on_conflict(&mut self) -> OnConflict {
        let key = self.maybe(|source| match source.flag() {
            true => ConflictKey::Columns(source.some(1, Self::name)),
            false => ConflictKey::Constraint(source.name()),
        });
        match self.choose(4) {
            0 => OnConflict::Ignore,
            1 => OnConflict::Replace,
            2 => OnConflict::Nothing(key),
            _ => OnConflict::Update {
                key,
                set: self.assignments(),
                condition: self.maybe(|source| source.expression(1)),
            },
        }
    }

    fn assignments(&mut self) -> Vec<Assignment> {
        self.some(1, |source| match source.choose(3) {
            0 => Assignment { columns: vec![source.name()], is_row: false, value: source.value_or_default() },
            1 => {
                let values = (0..2).map(|_| source.value_or_default()).collect();
                let value = Expr { kind: ExprKind::Row(values), span: SPAN };
                Assignment { columns: source.some(1, Self::name), is_row: true, value }
            }
            _ => {
                let kind = ExprKind::Subquery(Box::new(source.query(1)));
                Assignment { columns: source.some(1, Self::name), is_row: true, value: Expr { kind, span: SPAN } }
            }
        })
    }

    fn update(&mut self) -> Update {
        Update {
            with: None,
            table: self.object_name(),
            alias: self.maybe(Self::name),
            set: self.assignments(),
            from: self.some(0, |source| source.table(1)),
            condition: self.maybe(|source| source.expression(2)),
            returning: self.returning(),
        }
    }

    fn delete(&mut self) -> Delete {
        Delete {
            with: None,
            table: self.object_name(),
            alias: self.maybe(Self::name),
            using: self.some(0, |source| source.table(1)),
            condition: self.maybe(|source| source.expression(2)),
            returning: self.returning(),
        }
    }

    fn merge(&mut self) -> Merge {
        let clauses = self.some(1, |source| {
            let update = |source: &mut Self| match source.choose(6) {
                0 => MergeAction::Nothing,
                1 => MergeAction::Delete,
                2 => MergeAction::UpdateAll(MergeColumns::ByName),
                3 => MergeAction::UpdateAll(MergeColumns::ByPosition),
                4 => MergeAction::Error(source.maybe(Self::number)),
                _ => MergeAction::Update(source.assignments()),
            };
            let (matched, action) = match source.choose(3) {
                0 => (Matched::Matched, update(source)),
                1 => (Matched::NotBySource, update(source)),
                _ => {
                    let values = source.some(0, Self::value_or_default);
                    let columns = if values.is_empty() { vec![] } else { source.some(0, Self::name) };
                    (Matched::NotByTarget, MergeAction::Insert { columns, values })
                }
            };
            MergeClause { matched, condition: source.maybe(|source| source.expression(1)), action }
        });
        Merge {
            with: None,
            table: self.object_name(),
            alias: self.maybe(Self::name),
            source: self.table(1),
            condition: match self.flag() {
                true => JoinCondition::On(self.boxed(1)),
                false => JoinCondition::Using(self.some(1, Self::name)),
            },
            clauses,
            returning: self.returning(),
        }
    }

    fn create_table(&mut self) -> CreateTable {
        let query = self.maybe(|source| Box::new(source.query(2)));
        let least = usize::from(query.is_none());
        CreateTable {
            or_replace: self.flag(),
            temporary: self.flag(),
            if_not_exists: self.flag(),
            name: self.object_name(),
            elements: self.some(least, |source| match source.choose(4) {
                0 => TableElement::Like(source.object_name()),
                1 => TableElement::Constraint(source.table_constraint()),
                _ => TableElement::Column(source.column()),
            }),
            options: self.some(0, Self::option),
            on_commit: self
                .maybe(|source| [OnCommit::Drop, OnCommit::DeleteRows, OnCommit::PreserveRows][source.choose(3)]),
            with_no_data: query.is_some() && self.flag(),
            query,
        }
    }

    fn column(&mut self) -> ColumnDefinition {
        ColumnDefinition {
            name: self.name(),
            data_type: Some(self.data_type(1)),
            constraints: self.some(0, |source| ColumnConstraint {
                name: source.maybe(Self::name),
                kind: source.column_constraint(),
                span: SPAN,
            }),
            span: SPAN,
        }
    }

    fn column_constraint(&mut self) -> ColumnConstraintKind {
        use ColumnConstraintKind as Kind;
        let enforced = self.maybe(Self::flag);
        match self.choose(9) {
            0 => Kind::NotNull,
            1 => Kind::Null,
            2 => Kind::Default(self.boxed(1)),
            3 => Kind::Generated(self.boxed(1)),
            4 => Kind::Identity(Identity {
                always: self.flag(),
                options: self.some(0, |source| match source.choose(3) {
                    0 => SequenceOption::Start(source.number()),
                    1 => SequenceOption::MinValue(source.maybe(Self::number)),
                    _ => SequenceOption::Cycle(source.flag()),
                }),
            }),
            5 => Kind::PrimaryKey(enforced),
            6 => Kind::Unique(enforced),
            7 => Kind::Check(self.boxed(1), enforced),
            _ => {
                Kind::References(References { table: self.object_name(), columns: self.some(0, Self::name) }, enforced)
            }
        }
    }

    fn table_constraint(&mut self) -> TableConstraint {
        use TableConstraintKind as Kind;
        let kind = match self.choose(4) {
            0 => Kind::PrimaryKey(self.some(1, Self::name)),
            1 => Kind::Unique(self.some(1, Self::name)),
            2 => Kind::Check(self.boxed(1)),
            _ => Kind::ForeignKey(
                self.some(1, Self::name),
                References { table: self.object_name(), columns: self.some(0, Self::name) },
            ),
        };
        TableConstraint { name: self.maybe(Self::name), kind, enforced: self.maybe(Self::flag), span: SPAN }
    }

    fn alter(&mut self) -> AlterKind {
        match self.choose(11) {
            0 => AlterKind::AddColumn { if_not_exists: self.flag(), column: self.column() },
            1 => AlterKind::DropColumn { if_exists: self.flag(), name: self.name(), cascade: self.flag() },
            2 => AlterKind::RenameColumn { name: self.name(), to: self.name() },
            3 => AlterKind::SetType {
                column: self.name(),
                data_type: self.data_type(1),
                using: self.maybe(|source| source.boxed(1)),
            },
            4 => AlterKind::SetDefault { column: self.name(), value: self.boxed(1) },
            5 => AlterKind::AddConstraint(self.table_constraint()),
            6 => AlterKind::AddCopy {
                name: self.name(),
                columns: self.some(0, Self::name),
                options: self.some(0, Self::option),
            },
            7 => AlterKind::AddField {
                if_not_exists: self.flag(),
                path: self.some(2, Self::name),
                data_type: self.data_type(1),
            },
            8 => AlterKind::DropField { if_exists: self.flag(), path: self.some(2, Self::name) },
            9 => AlterKind::RenameField { path: self.some(2, Self::name), to: self.name() },
            _ => AlterKind::SetDesign(self.some(1, Self::option)),
        }
    }
}
