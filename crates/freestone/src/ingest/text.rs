//! Text files for readers that read blocks in any order: the inferred properties of a file, its blocks, and their
//! parsers.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field as ColumnField, Schema, SchemaRef};

use super::blocks::{Block, BlockSource, BufferPool};
use super::columns::{BatchBuilder, CellRules};
use super::csv::CsvParser;
use super::error::{IngestError, Reason};
use super::infer::{CsvFile, csv_file};
use super::json::{self, JsonFile, JsonParser, Member, json_file};
use super::parallel::Worker;
use super::shapes::Shape;
use super::{FileFormat, IngestOptions};

/// The bytes at the start of a file from which columns are inferred, for a single file and for many.
const HEAD_BYTES: usize = 4 << 20;
const HEAD_BYTES_OF_MANY: usize = 256 << 10;
const MANY: usize = 16;

/// The inferred properties of a text file.
#[derive(Debug, Clone)]
pub(crate) enum TextFile {
    Csv(CsvFile),
    Json(JsonFile),
}

impl TextFile {
    /// Inspects one of several files.
    pub fn look(path: &Path, format: FileFormat, options: &IngestOptions, files: usize) -> Result<Self, IngestError> {
        match format {
            FileFormat::Json => Ok(TextFile::Json(json_file(path, options)?)),
            _ => {
                let head_bytes = if files > MANY { HEAD_BYTES_OF_MANY } else { HEAD_BYTES };
                Ok(TextFile::Csv(csv_file(path, options, head_bytes)?))
            }
        }
    }

    /// The distinct names of the columns, and the types that their values have.
    pub fn columns(&self) -> Vec<(String, Shape)> {
        match self {
            TextFile::Csv(file) => {
                file.names.iter().cloned().zip(file.kinds.iter().map(|kinds| Shape::from(*kinds))).collect()
            }
            TextFile::Json(file) => file.columns.clone(),
        }
    }

    /// Whether the names of the columns are in the file.
    pub fn has_names(&self) -> bool {
        match self {
            TextFile::Csv(file) => file.layout.header,
            TextFile::Json(_) => true,
        }
    }

    /// The approximate bytes of a row.
    pub fn row_bytes(&self) -> usize {
        match self {
            TextFile::Csv(file) => file.row_bytes,
            TextFile::Json(file) => file.row_bytes,
        }
    }

    /// The file's text in blocks of whole records.
    pub fn blocks(&self, path: &Path, options: &IngestOptions, pool: BufferPool) -> Result<BlockSource, IngestError> {
        match self {
            TextFile::Csv(file) => file.layout.blocks(path, options, pool),
            TextFile::Json(_) => json::blocks(path, options, pool),
        }
    }

    /// A parser for the blocks of the file. Each column of `schema` is read from the file's column at its position in
    /// `sources`. `inferred` has the types of the values of columns without a declared type.
    pub fn parser(
        &self,
        path: &Path,
        schema: &SchemaRef,
        sources: Vec<Option<usize>>,
        inferred: &[Option<Shape>],
        options: &IngestOptions,
        pool: BufferPool,
    ) -> Result<TextParser, IngestError> {
        let name = path.display().to_string();
        let failed = |reason: Reason| IngestError::new(&name, reason);
        let parser: Box<dyn Worker<Block>> = match self {
            TextFile::Csv(file) => {
                let rules = |at: usize| CellRules { strict: inferred[at].is_some(), ..CellRules::CSV };
                let builder = BatchBuilder::new(schema, sources, rules, options).map_err(failed)?;
                Box::new(CsvParser::new(&file.layout, builder, options, pool))
            }
            TextFile::Json(file) => {
                let members = file.members(schema, &sources);
                let member_rules = file.rules(schema, &sources, inferred);
                let rules = |at: usize| CellRules { strict: inferred[at].is_some(), ..CellRules::JSON };
                let builder = BatchBuilder::new(schema, sources, rules, options).map_err(failed)?;
                Box::new(JsonParser::new(file.array, &members, member_rules, builder, options, pool))
            }
        };
        Ok(TextParser { name, parser })
    }
}

impl JsonFile {
    /// The members of the file's objects. Those to be read have the types of the schema.
    fn members(&self, schema: &SchemaRef, sources: &[Option<usize>]) -> SchemaRef {
        let field = |(at, (name, shape)): (usize, &(String, Shape))| {
            let read = sources.iter().position(|source| *source == Some(at));
            let data_type = read.map_or_else(|| shape.data_type(), |read| schema.field(read).data_type().clone());
            ColumnField::new(name, data_type, true)
        };
        Arc::new(Schema::new(self.columns.iter().enumerate().map(field).collect::<Vec<_>>()))
    }

    /// The values that are accepted for each member. Members that are not read may have any.
    fn rules(&self, schema: &SchemaRef, sources: &[Option<usize>], inferred: &[Option<Shape>]) -> Vec<Member> {
        let rule = |at: usize| {
            let Some(read) = sources.iter().position(|source| *source == Some(at)) else { return Member::Any };
            match (&inferred[read], schema.field(read).data_type()) {
                (None, _) => Member::Any,
                (_, kind) if kind.is_numeric() || *kind == DataType::Boolean => Member::Unquoted,
                (_, kind) if kind.is_nested() => Member::Any,
                (Some(shape), _) if shape.is_json_text() => Member::Json,
                _ => Member::Plain,
            }
        };
        (0..self.columns.len()).map(rule).collect()
    }
}

/// Parses blocks of one text file, in any order.
pub(crate) struct TextParser {
    name: String,
    parser: Box<dyn Worker<Block>>,
}

impl TextParser {
    /// The rows of a block.
    pub fn parse(&mut self, block: Block) -> Result<Vec<RecordBatch>, IngestError> {
        let (first_line, first_byte) = (block.first_line, block.first_byte);
        let mut batches = Vec::new();
        let parsed = self.parser.run(block, &mut |batch| {
            batches.push(batch);
            true
        });
        match parsed {
            Ok(_) => Ok(batches),
            Err(failed) => {
                let mut error = failed.error;
                if error.details().source.is_empty() {
                    error = error.in_source(&self.name);
                }
                if let Reason::InvalidUtf8 { byte } = error.details().reason {
                    error = error.with_reason(Reason::InvalidUtf8 { byte: byte + first_byte });
                }
                Err(match failed.line {
                    Some(line) => error.at_line(first_line + line + 1),
                    None => error,
                })
            }
        }
    }
}
