//! CREATE TABLE.

use super::{Parsed, Parser};
use crate::error::SyntaxError;
use crate::keyword::Keyword as K;
use crate::lexer::Op;
use crate::tree::{
    ColumnConstraint, ColumnConstraintKind, ColumnDefinition, CreateTable, Enforced, Identity, Name, OnCommit,
    OptionItem, References, SequenceOption, TableConstraint, TableConstraintKind, TableElement,
};

/// What stands between CREATE and the kind of object.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Created {
    pub or_replace: bool,
    pub temporary: bool,
}

impl Parser<'_> {
    /// A table behind `CREATE TABLE`.
    pub(super) fn create_table(&mut self, created: Created) -> Parsed<CreateTable> {
        let if_not_exists = self.if_not_exists();
        let name = self.object_name("a table")?;
        let elements = self.optional_list_in_parens(Self::table_element)?;
        self.refuse_clauses_of_tables()?;
        let mut table = CreateTable {
            or_replace: created.or_replace,
            temporary: created.temporary,
            if_not_exists,
            name,
            elements,
            options: vec![],
            on_commit: None,
            query: None,
            with_no_data: false,
        };
        if self.is(K::WITH) && self.is_op_at(1, Op::LeftParen) {
            self.advance();
            table.options = self.options()?;
        }
        if self.accept_all(&[K::ON, K::COMMIT]) {
            table.on_commit = Some(self.on_commit()?);
        }
        self.refuse_clauses_of_tables()?;
        if self.accept(K::AS) {
            table.query = Some(self.boxed_query()?);
            table.with_no_data = self.without_data();
        } else if table.elements.is_empty() {
            return Err(self.expected_any(&["columns in parentheses", "AS"]));
        }
        if table.query.is_none() {
            table.elements.iter().try_for_each(|element| match element {
                TableElement::Column(column) => self.require_type(column),
                _ => Ok(()),
            })?;
        }
        Ok(table)
    }

    /// A column that is not made by a query needs a type or an expression.
    pub(super) fn require_type(&self, column: &ColumnDefinition) -> Parsed<()> {
        if column.data_type.is_some() || column.generated().is_some() {
            return Ok(());
        }
        let mut error = self.error(format!("column {} has no type", column.name.text));
        error.span = column.name.span;
        Err(error)
    }

    fn refuse_clauses_of_tables(&self) -> Parsed<()> {
        match self.keyword(0) {
            Some(K::PARTITION) => self.refused_here("PARTITION BY", "WITH (sort = '…') orders a table"),
            Some(K::INHERITS) => self.refused_here("INHERITS", "tables do not inherit"),
            Some(K::CLUSTER) => self.refused_here("CLUSTER BY", "write WITH (cluster = '…')"),
            Some(K::USING | K::TABLESPACE) => self.refused_here("this clause of a table", "write WITH (medium = '…')"),
            Some(K::WITHOUT) => self.refused_here("WITHOUT ROWID and OIDS", "leave it out"),
            _ => Ok(()),
        }
    }

    fn on_commit(&mut self) -> Parsed<OnCommit> {
        Ok(match self.expect_any(&[K::DROP, K::DELETE, K::PRESERVE])? {
            K::DROP => OnCommit::Drop,
            K::DELETE => self.expect(K::ROWS).map(|_| OnCommit::DeleteRows)?,
            _ => self.expect(K::ROWS).map(|_| OnCommit::PreserveRows)?,
        })
    }

    fn table_element(&mut self) -> Parsed<TableElement> {
        if self.is(K::LIKE) && self.is_name_at(1) {
            self.advance();
            let other = self.object_name("a table")?;
            if self.is_any(&[K::INCLUDING, K::EXCLUDING]) {
                return self.refused_here("INCLUDING and EXCLUDING", "LIKE takes the columns and NOT NULL");
            }
            return Ok(TableElement::Like(other));
        }
        match self.begins_table_constraint() {
            true => Ok(TableElement::Constraint(self.table_constraint()?)),
            false => Ok(TableElement::Column(self.column_definition()?)),
        }
    }

    pub(super) fn begins_table_constraint(&self) -> bool {
        match self.keyword(0) {
            Some(K::CONSTRAINT | K::UNIQUE | K::CHECK) => true,
            Some(K::PRIMARY | K::FOREIGN) => true,
            Some(K::EXCLUDE) => self.is_at(1, K::USING) || self.is_op_at(1, Op::LeftParen),
            _ => false,
        }
    }

    pub(super) fn table_constraint(&mut self) -> Parsed<TableConstraint> {
        let start = self.span();
        let name = if self.accept(K::CONSTRAINT) { Some(self.name("the name of a constraint")?) } else { None };
        let kind = match self.expect_any(&[K::PRIMARY, K::UNIQUE, K::CHECK, K::FOREIGN, K::EXCLUDE])? {
            K::PRIMARY => {
                self.expect(K::KEY)?;
                TableConstraintKind::PrimaryKey(self.columns()?)
            }
            K::UNIQUE => {
                self.refuse_nulls_not_distinct()?;
                TableConstraintKind::Unique(self.columns()?)
            }
            K::CHECK => TableConstraintKind::Check(Box::new(self.in_parens(Self::expression)?)),
            K::EXCLUDE => {
                self.at -= 1;
                return self.refused_here("EXCLUDE in a table", "UNIQUE and CHECK are available");
            }
            _ => {
                self.expect(K::KEY)?;
                let columns = self.columns()?;
                self.expect(K::REFERENCES)?;
                TableConstraintKind::ForeignKey(columns, self.references()?)
            }
        };
        let enforced = self.characteristics()?;
        Ok(TableConstraint { name, kind, enforced, span: self.since(start) })
    }

    fn refuse_nulls_not_distinct(&mut self) -> Parsed<()> {
        if self.is(K::NULLS) && self.is_at(1, K::NOT) {
            return self.refused_here("NULLS NOT DISTINCT", "a row with NULL in a UNIQUE is equal to no other row");
        }
        self.accept_all(&[K::NULLS, K::DISTINCT]);
        Ok(())
    }

    /// `table (columns)` behind REFERENCES, and what happens to referring rows: nothing else than an error.
    fn references(&mut self) -> Parsed<References> {
        let table = self.object_name("a table")?;
        let columns = self.optional_columns()?;
        if self.is(K::MATCH) {
            return self.refused_here("MATCH of a FOREIGN KEY", "leave it out");
        }
        while self.is(K::ON) && (self.is_at(1, K::DELETE) || self.is_at(1, K::UPDATE)) {
            let start = self.advance();
            let event = if self.is(K::DELETE) { "DELETE" } else { "UPDATE" };
            self.advance();
            if self.is_any(&[K::CASCADE, K::SET]) {
                let what = format!("ON {event} CASCADE and SET in a FOREIGN KEY");
                let hint = "a row stays while others refer to it (NO ACTION, RESTRICT)";
                self.advance();
                return Err(self.refused(self.since(start), &what, hint));
            }
            if !self.accept_all(&[K::NO, K::ACTION]) && !self.accept(K::RESTRICT) {
                return Err(self.expected_any(&["NO ACTION", "RESTRICT"]));
            }
        }
        Ok(References { table, columns })
    }

    /// `[NOT] ENFORCED` and what says when a constraint is checked, which is always at the end of a statement.
    fn characteristics(&mut self) -> Parsed<Enforced> {
        let mut enforced = None;
        loop {
            if self.accept_all(&[K::NOT, K::ENFORCED]) {
                enforced = Some(false);
            } else if self.accept(K::ENFORCED) {
                enforced = Some(true);
            } else if self.is(K::INITIALLY) && self.is_at(1, K::DEFERRED) {
                return self.refused_here("DEFERRABLE: constraints hold at the end of each statement", "leave it out");
            } else if !self.accept_all(&[K::NOT, K::DEFERRABLE])
                && !self.accept(K::DEFERRABLE)
                && !self.accept_all(&[K::INITIALLY, K::IMMEDIATE])
            {
                return Ok(enforced);
            }
        }
    }

    pub(super) fn column_definition(&mut self) -> Parsed<ColumnDefinition> {
        let start = self.span();
        let name = self.name("a column").map_err(|error| self.with_hint_of_reserved(error))?;
        let data_type = if self.ends_column_name() { None } else { Some(self.data_type()?) };
        let mut constraints = vec![];
        while let Some(constraint) = self.column_constraint()? {
            constraints.push(constraint);
        }
        Ok(ColumnDefinition { name, data_type, constraints, span: self.since(start) })
    }

    /// The error at a reserved word with a type behind it, with what makes it the name of a column.
    fn with_hint_of_reserved(&self, mut error: Box<SyntaxError>) -> Box<SyntaxError> {
        if self.is_label_at(0) && self.is_label_at(1) {
            let word = self.span().of(self.text).to_lowercase();
            error.hint = Some(format!("{word} is a reserved word: write \"{word}\" in quotes"));
        }
        error
    }

    /// Whether no type follows the name of a column.
    fn ends_column_name(&self) -> bool {
        let is_op = self.is_op(Op::Comma) || self.is_op(Op::RightParen) || self.is_at_end_of_statement();
        is_op || self.is_any(&[K::AS, K::GENERATED, K::DEFAULT, K::NOT, K::NULL, K::PRIMARY, K::UNIQUE, K::CHECK])
    }

    fn column_constraint(&mut self) -> Parsed<Option<ColumnConstraint>> {
        let start = self.span();
        let name = if self.accept(K::CONSTRAINT) { Some(self.name("the name of a constraint")?) } else { None };
        let Some(kind) = self.column_constraint_kind()? else {
            return match name {
                Some(_) => Err(self.expected("a constraint")),
                None => Ok(None),
            };
        };
        Ok(Some(ColumnConstraint { name, kind, span: self.since(start) }))
    }

    fn column_constraint_kind(&mut self) -> Parsed<Option<ColumnConstraintKind>> {
        use ColumnConstraintKind as Kind;
        if self.is(K::NOT) && !self.is_at(1, K::NULL) {
            return Ok(None);
        }
        let words = [
            K::NOT,
            K::NULL,
            K::DEFAULT,
            K::GENERATED,
            K::AS,
            K::PRIMARY,
            K::UNIQUE,
            K::CHECK,
            K::REFERENCES,
            K::COLLATE,
        ];
        let Some(word) = self.accept_any(&words) else { return Ok(None) };
        Ok(Some(match word {
            K::NOT => self.expect(K::NULL).map(|_| Kind::NotNull)?,
            K::NULL => Kind::Null,
            K::DEFAULT => Kind::Default(self.boxed_expression()?),
            K::GENERATED => self.generated()?,
            K::AS => self.generated_value()?,
            K::PRIMARY => {
                self.expect(K::KEY)?;
                Kind::PrimaryKey(self.characteristics()?)
            }
            K::UNIQUE => {
                self.refuse_nulls_not_distinct()?;
                Kind::Unique(self.characteristics()?)
            }
            K::CHECK => {
                let condition = Box::new(self.in_parens(Self::expression)?);
                Kind::Check(condition, self.characteristics()?)
            }
            K::REFERENCES => {
                let references = self.references()?;
                Kind::References(references, self.characteristics()?)
            }
            _ => Kind::Collate(self.object_name("a collation")?),
        }))
    }

    /// What stands behind GENERATED.
    fn generated(&mut self) -> Parsed<ColumnConstraintKind> {
        let always = self.generated_always()?;
        self.expect(K::AS)?;
        if self.is(K::IDENTITY) || !always {
            self.expect(K::IDENTITY)?;
            return Ok(ColumnConstraintKind::Identity(Identity { always, options: self.identity_options()? }));
        }
        self.generated_value()
    }

    /// ALWAYS (true) or BY DEFAULT.
    fn generated_always(&mut self) -> Parsed<bool> {
        match (self.accept(K::ALWAYS), self.accept_all(&[K::BY, K::DEFAULT])) {
            (true, _) => Ok(true),
            (_, true) => Ok(false),
            _ => Err(self.expected_any(&["ALWAYS", "BY DEFAULT"])),
        }
    }

    /// `ALWAYS AS IDENTITY (options)` behind GENERATED in ALTER TABLE.
    pub(super) fn identity(&mut self) -> Parsed<Identity> {
        let always = self.generated_always()?;
        self.expect_all(&[K::AS, K::IDENTITY])?;
        Ok(Identity { always, options: self.identity_options()? })
    }

    fn identity_options(&mut self) -> Parsed<Vec<SequenceOption>> {
        if self.is_op(Op::LeftParen) { self.in_parens(Self::sequence_options) } else { Ok(vec![]) }
    }

    /// `(value) [STORED | VIRTUAL]`: no column is stored.
    fn generated_value(&mut self) -> Parsed<ColumnConstraintKind> {
        let value = Box::new(self.in_parens(Self::expression)?);
        self.accept_any(&[K::STORED, K::VIRTUAL]);
        Ok(ColumnConstraintKind::Generated(value))
    }

    /// `WITH (options)`, or nothing.
    pub(super) fn optional_with_options(&mut self) -> Parsed<Vec<OptionItem>> {
        if self.accept(K::WITH) { self.options() } else { Ok(vec![]) }
    }

    /// `WITH NO DATA` or `WITH DATA`, which may be left out.
    pub(super) fn without_data(&mut self) -> bool {
        let without = self.accept_all(&[K::WITH, K::NO, K::DATA]);
        if !without {
            self.accept_all(&[K::WITH, K::DATA]);
        }
        without
    }

    /// The new name behind TO.
    pub(super) fn new_name(&mut self) -> Parsed<Name> {
        self.expect(K::TO)?;
        self.name("a new name")
    }
}
