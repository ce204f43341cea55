//! Entry points for fuzzing: no input may cause a panic. These are the parsers behind the checksums, so checksums do
//! not reject the input.

use arrow_schema::DataType;
use freestone_codec::{BytesBound, BytesPredicate, IntPredicate, Kind, Predicate, Rows, Scratch, Shared};

use crate::bitmap;
use crate::column::ColumnBuffer;
use crate::design::PageFormat;
use crate::format::{GroupContext, Layout, PageView};
use crate::log::Record;
use crate::schema::{TableSchema, kind};
use crate::segment::footer::{Footer, parse_trailer};
use crate::store::fold;

/// Reads a page of any format. The first bytes choose format, rows and columns; the rest is the payload.
#[doc(hidden)]
pub fn fuzz_page(data: &[u8]) {
    let Some(([format, rows, rows_high, columns], payload)) = data.split_first_chunk::<4>() else { return };
    let format = [PageFormat::Slotted, PageFormat::Dense, PageFormat::Pax][usize::from(format % 3)];
    let rows = usize::from(*rows) + 256 * usize::from(rows_high % 8);
    let types = [
        DataType::Int32,
        DataType::Utf8View,
        DataType::Decimal128(38, 2),
        DataType::Float64,
        DataType::Boolean,
        DataType::UInt64,
        DataType::Float32,
        DataType::BinaryView,
    ];
    let types: Vec<DataType> =
        types.into_iter().cycle().skip(usize::from(columns % 8)).take(1 + usize::from(columns / 64)).collect();
    let shared = types.iter().map(|t| shared(t, columns / 8)).collect();
    let group = GroupContext::new(format, types, shared);
    if let Ok(layout) = Layout::parse(payload, rows, &group) {
        exercise(&PageView { group: &group, layout: &layout, payload, key: 1 });
    }
}

fn shared(data_type: &DataType, select: u8) -> Option<Shared> {
    match (select % 4, kind(data_type)) {
        (0, _) => None,
        (1, Kind::Bytes) => Some(Shared::train_fsst(&vec![b"abababab", b"ababcd"])),
        (_, Kind::Bytes) => Shared::bytes_dictionary(&[b"a", b"a long entry of the dictionary", b"b"]).ok(),
        (2, kind) => Shared::int_dictionary(vec![-5, 7, 1 << 40], kind).ok(),
        // The shared state of a string column, for a column of numbers.
        _ => Shared::bytes_dictionary(&[b"a", b"b"]).ok(),
    }
}

/// Decodes and filters every column of a page with every operation.
#[doc(hidden)]
pub fn exercise(view: &PageView<'_>) {
    let rows = view.layout.rows();
    if rows == 0 {
        return;
    }
    let scratch = &mut Scratch::default();
    let mut positions = vec![0, rows as u32 / 2, rows as u32 - 1];
    positions.dedup();
    for (column, data_type) in view.group.types.iter().enumerate() {
        let half = Rows::Range { start: rows / 3, len: rows - rows / 3 };
        for selection in [Rows::Range { start: 0, len: rows }, half, Rows::Positions(&positions)] {
            let mut buffer = ColumnBuffer::new(data_type);
            if view.decode(&[(0, column)], selection, std::slice::from_mut(&mut buffer), scratch).is_ok() {
                assert_eq!(buffer.len(), selection.len(), "as many values as were asked for");
                let _ = buffer.finish();
            }
        }
        for predicate in predicates() {
            let mut selection = bitmap::ones(rows);
            let _ = view.filter(column, &predicate, 0, rows, &mut selection, scratch);
        }
    }
}

fn predicates() -> [Predicate; 9] {
    let bound = |value: &[u8]| Some(BytesBound { value: value.to_vec(), inclusive: true });
    [
        Predicate::IsNull,
        Predicate::IsNotNull,
        Predicate::Int(IntPredicate::Range { low: -3, high: 1 << 30 }),
        Predicate::Int(IntPredicate::Range { low: i128::MIN, high: i128::MAX - 1 }),
        Predicate::Int(IntPredicate::NotIn(vec![i128::MIN, 5, i128::MAX])),
        Predicate::Int(IntPredicate::NotEqual(i128::from(i64::MIN))),
        Predicate::Bytes(BytesPredicate::Prefix(b"a".to_vec())),
        Predicate::Bytes(BytesPredicate::NotIn(vec![b"ab".to_vec(), b"b".to_vec()])),
        Predicate::Bytes(BytesPredicate::Range { low: bound(b"a"), high: None }),
    ]
}

/// Reads a segment's footer or trailer.
#[doc(hidden)]
pub fn fuzz_footer(data: &[u8]) {
    let _ = parse_trailer(data);
    if let Ok(footer) = Footer::parse(data) {
        let bytes = footer.to_bytes();
        assert!(Footer::parse(&bytes).is_ok(), "what was read can be written and read again");
        let description = &footer.description;
        description.columns.iter().for_each(|c| drop(c.plan()));
        for (zones, column) in footer.zones.iter().zip(&description.schema.columns) {
            for zone in 0..zones.len().min(100) {
                for predicate in predicates() {
                    let _ = zones.verdict(zone, description.zone_rows as usize, &predicate);
                }
            }
            let _ = crate::schema::type_name(&column.data_type);
        }
        let _ = design_of(&description.schema, &description.design);
    }
}

/// Reads a commit: its operations are applied to an empty state, folded, and applied again.
#[doc(hidden)]
pub fn fuzz_commit(data: &[u8]) {
    let record = Record { sequence: 1, body: data.to_vec(), is_base: false };
    if let Some(tables) = fold(&record) {
        for table in tables {
            let _ = (table.rows(), table.bytes(), crate::scan::morsels(&table, 1 << 16));
            let _ = design_of(&table.schema, &table.design);
        }
    }
}

fn design_of(schema: &TableSchema, design: &crate::design::Design) -> usize {
    design.to_string().len() + design.groups(schema).len() + design.sort_columns(schema).len()
}
