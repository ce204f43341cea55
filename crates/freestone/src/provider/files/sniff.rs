//! `sniff_csv('f.csv')`: what is found out about a CSV file, with the columns that DuckDB gives it.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, ListArray, RecordBatch, StringViewArray, StructArray, UInt64Array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;

use super::functions::FilesFunction;
use super::layout::Layout;
use crate::error::{Error, Result};
use crate::ingest::FileFormat;

/// The function.
#[derive(Debug)]
pub(crate) struct SniffFunction(pub FilesFunction);

impl SniffFunction {
    fn rows(&self, arguments: &TableFunctionArgs) -> Result<RecordBatch> {
        let (files, mut options) = self.0.files(arguments.exprs())?;
        options.ingest.format = Some(FileFormat::Csv);
        let set = self.0.open(&files, &options.complete()?)?;
        let layouts = set.files.iter().filter_map(|file| Layout::of(&set, file));
        rows(&layouts.collect::<Vec<_>>())
    }
}

impl TableFunctionImpl for SniffFunction {
    fn call_with_args(&self, arguments: TableFunctionArgs) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        let rows = self.rows(&arguments)?;
        Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
    }
}

fn rows(layouts: &[Layout]) -> Result<RecordBatch> {
    let text = |of: &dyn Fn(&Layout) -> Option<String>| -> ArrayRef {
        Arc::new(StringViewArray::from_iter(layouts.iter().map(of)))
    };
    let columns = || layouts.iter().flat_map(|layout| &layout.columns);
    let part = |name: &str| Field::new(name, DataType::Utf8View, true);
    let fields: Fields = vec![part("name"), part("type")].into();
    let names: ArrayRef = Arc::new(StringViewArray::from_iter_values(columns().map(|(name, _)| name)));
    let types: ArrayRef = Arc::new(StringViewArray::from_iter_values(columns().map(|(_, kind)| kind)));
    let described: ArrayRef = Arc::new(StructArray::try_new(fields, vec![names, types], None)?);
    let item = Arc::new(Field::new_list_field(described.data_type().clone(), true));
    let lengths = OffsetBuffer::from_lengths(layouts.iter().map(|layout| layout.columns.len()));
    let listed: ArrayRef = Arc::new(ListArray::try_new(item, lengths, described, None)?);
    let skipped = layouts.iter().map(|layout| layout.skip_rows as u64);
    let headers = BooleanArray::from_iter(layouts.iter().map(|layout| Some(layout.has_header)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("Delimiter", text(&|layout| Some(layout.delimiter.clone()))),
        ("Quote", text(&|layout| Some(layout.quote.clone()))),
        ("Escape", text(&|layout| Some(layout.escape.clone()))),
        ("NewLineDelimiter", text(&|layout| Some(layout.new_line.to_owned()))),
        ("Comment", text(&|layout| Some(layout.comment.clone()))),
        ("SkipRows", Arc::new(UInt64Array::from_iter_values(skipped))),
        ("HasHeader", Arc::new(headers)),
        ("Columns", listed),
        ("DateFormat", text(&|layout| layout.date_format.clone())),
        ("TimestampFormat", text(&|layout| layout.timestamp_format.clone())),
        ("UserArguments", text(&|layout| layout.arguments.clone())),
        ("Prompt", text(&|layout| Some(layout.prompt()))),
    ];
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).map_err(Error::from)
}
