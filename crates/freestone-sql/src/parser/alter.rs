//! ALTER TABLE and ALTER VIEW.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::Op;
use crate::tree::{AlterAction, AlterKind, AlterTable, Name, RenameView, StatementKind};

impl Parser<'_> {
    /// A statement behind ALTER.
    pub(super) fn alter(&mut self) -> Parsed<StatementKind> {
        let materialized = self.accept_materialized();
        match self.accept_any(&[K::TABLE, K::VIEW]) {
            Some(K::TABLE) => {
                let if_exists = self.if_exists();
                self.accept_only();
                let table = self.object_name("a table")?;
                let actions = self.list(|parser| {
                    let start = parser.span();
                    Ok(AlterAction { kind: parser.alter_action()?, span: parser.since(start) })
                })?;
                Ok(StatementKind::AlterTable(AlterTable { if_exists, table, actions }))
            }
            Some(_) => {
                let if_exists = self.if_exists();
                let name = self.object_name("a view")?;
                self.expect(K::RENAME)?;
                let to = self.new_name()?;
                Ok(StatementKind::RenameView(RenameView { materialized, if_exists, name, to }))
            }
            None => match self.keyword(0) {
                Some(
                    word @ (K::SEQUENCE | K::SCHEMA | K::TYPE | K::INDEX | K::DATABASE | K::USER | K::ROLE | K::MACRO),
                ) => {
                    let hint = "ALTER TABLE changes columns, designs and copies of tables";
                    self.refused_here(&format!("ALTER {}", word.word()), hint)
                }
                _ => Err(self.expected_any(&["TABLE", "VIEW", "MATERIALIZED VIEW"])),
            },
        }
    }

    fn alter_action(&mut self) -> Parsed<AlterKind> {
        match self.accept_any(&[K::ADD, K::DROP, K::RENAME, K::ALTER, K::SET]) {
            Some(K::ADD) => self.add(),
            Some(K::DROP) => self.drop_part(),
            Some(K::RENAME) => self.rename(),
            Some(K::ALTER) => self.alter_column(),
            Some(_) => {
                if !self.is(K::DESIGN) {
                    return Err(self.expected("DESIGN"));
                }
                self.advance();
                Ok(AlterKind::SetDesign(self.options()?))
            }
            None => Err(self.expected_any(&["ADD", "DROP", "RENAME", "ALTER", "SET DESIGN"])),
        }
    }

    fn add(&mut self) -> Parsed<AlterKind> {
        if self.begins_table_constraint() {
            return Ok(AlterKind::AddConstraint(self.table_constraint()?));
        }
        // `ADD COPY name (columns)`. A column named copy has a type, which ends the statement or has constraints.
        if self.is(K::COPY) && self.is_name_at(1) && !self.is_copy_column() {
            self.advance();
            let name = self.name("the name of a copy")?;
            let columns = self.optional_columns()?;
            return Ok(AlterKind::AddCopy { name, columns, options: self.optional_with_options()? });
        }
        self.accept(K::COLUMN);
        let if_not_exists = self.if_not_exists();
        if self.is_name_at(0) && self.is_op_at(1, Op::Dot) {
            let path = self.field_path()?;
            return Ok(AlterKind::AddField { if_not_exists, path, data_type: self.data_type()? });
        }
        let column = self.column_definition()?;
        self.require_type(&column)?;
        if self.is(K::FIRST) {
            return self
                .refused_here("the position of a new column", "leave it out: new columns are behind the others");
        }
        Ok(AlterKind::AddColumn { if_not_exists, column })
    }

    /// Whether `COPY name` is a column with its type, which something that follows a type shows.
    fn is_copy_column(&self) -> bool {
        [K::DEFAULT, K::NOT, K::NULL, K::UNIQUE, K::PRIMARY, K::CHECK, K::REFERENCES]
            .iter()
            .any(|word| self.is_at(2, *word))
    }

    fn drop_part(&mut self) -> Parsed<AlterKind> {
        if self.accept(K::CONSTRAINT) {
            let if_exists = self.if_exists();
            let name = self.name("a constraint")?;
            return Ok(AlterKind::DropConstraint { if_exists, name, cascade: self.cascade() });
        }
        let is_copy = self.is(K::COPY) && (self.is_name_at(1) || self.is_at(1, K::IF) && self.is_at(2, K::EXISTS));
        if is_copy && !self.is_at(1, K::CASCADE) && !self.is_at(1, K::RESTRICT) {
            self.advance();
            let if_exists = self.if_exists();
            return Ok(AlterKind::DropCopy { if_exists, name: self.name("a copy")? });
        }
        self.accept(K::COLUMN);
        let if_exists = self.if_exists();
        if self.is_name_at(0) && self.is_op_at(1, Op::Dot) {
            return Ok(AlterKind::DropField { if_exists, path: self.field_path()? });
        }
        let name = self.name("a column")?;
        Ok(AlterKind::DropColumn { if_exists, name, cascade: self.cascade() })
    }

    /// A column and the fields in it: `s.a.b`.
    fn field_path(&mut self) -> Parsed<Vec<Name>> {
        let mut path = vec![self.name("a column")?];
        while self.accept_op(Op::Dot) {
            path.push(self.label("a field")?);
        }
        Ok(path)
    }

    /// CASCADE (true), RESTRICT or nothing.
    pub(super) fn cascade(&mut self) -> bool {
        self.accept_any(&[K::CASCADE, K::RESTRICT]) == Some(K::CASCADE)
    }

    fn rename(&mut self) -> Parsed<AlterKind> {
        if self.is(K::TO) {
            return Ok(AlterKind::RenameTable { to: self.new_name()? });
        }
        if self.accept(K::CONSTRAINT) {
            let name = self.name("a constraint")?;
            return Ok(AlterKind::RenameConstraint { name, to: self.new_name()? });
        }
        self.accept(K::COLUMN);
        if self.is_name_at(0) && self.is_op_at(1, Op::Dot) {
            return Ok(AlterKind::RenameField { path: self.field_path()?, to: self.new_name()? });
        }
        let name = self.name("a column")?;
        Ok(AlterKind::RenameColumn { name, to: self.new_name()? })
    }

    /// What stands behind `ALTER [COLUMN]`.
    fn alter_column(&mut self) -> Parsed<AlterKind> {
        self.accept(K::COLUMN);
        let column = self.name("a column")?;
        match self.accept_any(&[K::TYPE, K::SET, K::DROP, K::ADD]) {
            Some(K::TYPE) => self.set_type(column),
            Some(K::SET) if self.accept(K::DATA) => {
                self.expect(K::TYPE)?;
                self.set_type(column)
            }
            Some(K::SET) if self.accept(K::TYPE) => self.set_type(column),
            Some(K::SET) if self.accept(K::DEFAULT) => {
                Ok(AlterKind::SetDefault { column, value: self.boxed_expression()? })
            }
            Some(K::SET) if self.accept_all(&[K::NOT, K::NULL]) => Ok(AlterKind::SetNotNull { column }),
            Some(K::DROP) if self.accept(K::DEFAULT) => Ok(AlterKind::DropDefault { column }),
            Some(K::DROP) if self.accept_all(&[K::NOT, K::NULL]) => Ok(AlterKind::DropNotNull { column }),
            Some(K::ADD) => {
                self.expect(K::GENERATED)?;
                Ok(AlterKind::AddIdentity { column, identity: self.identity()? })
            }
            Some(K::SET) => Err(self.expected_any(&["DATA TYPE", "DEFAULT", "NOT NULL"])),
            Some(_) => Err(self.expected_any(&["DEFAULT", "NOT NULL"])),
            None => Err(self.expected_any(&["TYPE", "SET", "DROP", "ADD GENERATED"])),
        }
    }

    fn set_type(&mut self, column: Name) -> Parsed<AlterKind> {
        let data_type = self.data_type()?;
        let using = if self.accept(K::USING) { Some(self.boxed_expression()?) } else { None };
        Ok(AlterKind::SetType { column, data_type, using })
    }
}
