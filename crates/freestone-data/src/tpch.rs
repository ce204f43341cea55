//! The eight tables of TPC-H, from `tpchgen`, whose rows are those of the specification's own generator.
//!
//! Keys are Int64, decimals Decimal128(15, 2), dates Date32, strings Utf8. No column is nullable.

use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use super::{BATCH_ROWS, Batches, WriteError};

/// The table names, parents before children, so that foreign keys are satisfied when tables are loaded in this order.
pub fn tables() -> [&'static str; 8] {
    ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"]
}

/// The schema of a table. `None` if TPC-H has no table of that name.
pub fn tpch_schema(name: &str) -> Option<SchemaRef> {
    let schema = match name {
        "region" => RegionArrow::schema_ref(),
        "nation" => NationArrow::schema_ref(),
        "part" => PartArrow::schema_ref(),
        "supplier" => SupplierArrow::schema_ref(),
        "partsupp" => PartSuppArrow::schema_ref(),
        "customer" => CustomerArrow::schema_ref(),
        "orders" => OrderArrow::schema_ref(),
        "lineitem" => LineItemArrow::schema_ref(),
        _ => return None,
    };
    Some(with_utf8(&schema))
}

/// Part `part` (from 0) of `parts` of a table. `None` if TPC-H has no table of that name.
///
/// The parts in order are the whole table, whatever their number, so each thread can generate one. `nation` and
/// `region` do not grow with the scale factor and are part 0 as a whole.
///
/// # Panics
/// If `part` is not below `parts`.
pub fn tpch_table(name: &str, scale_factor: f64, part: usize, parts: usize) -> Option<Batches> {
    assert!(part < parts, "part {part} of {parts}: parts count from 0");
    let schema = tpch_schema(name)?;
    // The generators count parts from 1.
    let (number, count) = (part as i32 + 1, parts as i32);
    macro_rules! batches {
        ($arrow:ident, $generator:ident) => {
            with_schema(schema, $arrow::new($generator::new(scale_factor, number, count)).with_batch_size(BATCH_ROWS))
        };
    }
    Some(match name {
        "region" | "nation" if part > 0 => Box::new(std::iter::empty()),
        "region" => batches!(RegionArrow, RegionGenerator),
        "nation" => batches!(NationArrow, NationGenerator),
        "part" => batches!(PartArrow, PartGenerator),
        "supplier" => batches!(SupplierArrow, SupplierGenerator),
        "partsupp" => batches!(PartSuppArrow, PartSuppGenerator),
        "customer" => batches!(CustomerArrow, CustomerGenerator),
        "orders" => batches!(OrderArrow, OrderGenerator),
        _ => batches!(LineItemArrow, LineItemGenerator),
    })
}

/// Writes the eight tables as `{folder}/{table}.parquet`, with one thread for `lineitem` and one for the others.
///
/// # Errors
/// The folder or a file cannot be created or written. Files that are already complete remain.
pub fn write_parquet(folder: &Path, scale_factor: f64) -> Result<(), WriteError> {
    std::fs::create_dir_all(folder).map_err(|error| WriteError { path: folder.to_owned(), source: error.into() })?;
    // A stack, so that one thread takes the biggest table first while the other writes the small ones.
    let waiting = Mutex::new(tables().to_vec());
    let work = || -> Result<(), WriteError> {
        loop {
            let Some(name) = waiting.lock().expect("no thread panics while it takes a name").pop() else {
                return Ok(());
            };
            let schema = tpch_schema(name).expect("the name is in tables()");
            let batches = tpch_table(name, scale_factor, 0, 1).expect("the name is in tables()");
            super::write_parquet(&folder.join(format!("{name}.parquet")), schema, batches)?;
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        work().and(other.join().expect("a generator thread does not panic"))
    })
}

/// The stream with strings as Utf8, because the generators give views, which not every reader of Parquet supports.
fn with_schema<I>(schema: SchemaRef, batches: I) -> Batches
where
    I: Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
{
    Box::new(batches.map(move |batch| {
        let batch = batch.expect("the generator's columns fit its schema");
        let fields = schema.fields().iter().zip(batch.columns());
        let columns =
            fields.map(|(field, column)| cast(column, field.data_type()).expect("a view casts to a string")).collect();
        RecordBatch::try_new(schema.clone(), columns).expect("the columns were cast to the schema")
    }))
}

fn with_utf8(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8View => field.as_ref().clone().with_data_type(DataType::Utf8),
        _ => field.as_ref().clone(),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::compute::concat_batches;

    fn whole(name: &str, scale_factor: f64, parts: usize) -> RecordBatch {
        let schema = tpch_schema(name).expect("the table exists");
        let batches: Vec<RecordBatch> = (0..parts)
            .flat_map(|part| tpch_table(name, scale_factor, part, parts).expect("the table exists"))
            .collect();
        concat_batches(&schema, &batches).expect("every part has the table's schema")
    }

    #[test]
    fn the_parts_together_are_the_table() {
        for name in tables() {
            let table = whole(name, 0.005, 1);
            for parts in [2, 7] {
                assert_eq!(whole(name, 0.005, parts), table, "{name} in {parts} parts");
            }
        }
    }

    #[test]
    fn row_counts_are_those_of_the_specification() {
        let rows = tables().map(|name| whole(name, 0.01, 1).num_rows());
        assert_eq!(rows, [5, 25, 2_000, 100, 8_000, 1_500, 15_000, 60_175]);
    }

    #[test]
    fn an_unknown_table_is_none() {
        assert!(tpch_table("lineitems", 1.0, 0, 1).is_none());
        assert!(tpch_schema("").is_none());
    }
}
