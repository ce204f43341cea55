//! The description of a table in the pool: schema, key, clustering and sizes.

use std::sync::Arc;

use super::clusters::{Clusters, Dimension};
use super::{PTableOptions, names_to_columns};
use crate::cluster::BitOrder;
use crate::error::Result;
use crate::page::checksum;
use crate::persistent::damaged;
use crate::persistent::pool::{Pool, UnitKind, UnitState};
use crate::schema::TableSchema;
use crate::segment::bins::Bins;
use crate::segment::bytes::{ByteReader, ByteWriter};

/// The bytes of a description.
pub fn write(options: &PTableOptions, key: &[usize]) -> Vec<u8> {
    let mut out = ByteWriter::default();
    out.bytes(&serde_json::to_vec(&options.schema).expect("a schema has a form in JSON"));
    let list = |out: &mut ByteWriter, numbers: &[usize]| {
        out.varint(numbers.len() as i128);
        numbers.iter().for_each(|number| out.varint(*number as i128));
    };
    list(&mut out, key);
    out.varint(options.node_bytes.into());
    match &options.order {
        BitOrder::RoundRobin => out.u8(1),
        BitOrder::MajorMinor => out.u8(2),
        BitOrder::Pattern(pattern) => {
            out.u8(3);
            list(&mut out, pattern);
        }
    }
    out.varint(options.clusters.len() as i128);
    for Dimension { column, bins } in &options.clusters {
        out.varint(*column as i128);
        bins.write(&mut out);
    }
    out.finish()
}

/// Options and key columns of a description.
fn parse(bytes: &[u8]) -> Result<(PTableOptions, Vec<usize>), String> {
    let mut input = ByteReader::new(bytes);
    let schema: TableSchema = serde_json::from_slice(input.bytes()?).map_err(|error| error.to_string())?;
    let schema = schema.validated().map_err(|error| error.to_string())?;
    let columns = schema.columns.len();
    let number = |input: &mut ByteReader<'_>, end: usize| -> Result<usize, String> {
        usize::try_from(input.varint()?)
            .ok()
            .filter(|number| *number < end)
            .ok_or_else(|| "a number out of range".into())
    };
    let list = |input: &mut ByteReader<'_>, end: usize| -> Result<Vec<usize>, String> {
        let count = number(input, 4097)?;
        (0..count).map(|_| number(input, end)).collect()
    };
    let key = list(&mut input, columns)?;
    let node_bytes = number(&mut input, 1 << 20)? as u64;
    let order = match input.u8()? {
        1 => BitOrder::RoundRobin,
        2 => BitOrder::MajorMinor,
        3 => BitOrder::Pattern(list(&mut input, columns.max(64))?),
        _ => return Err("an order of bits that this version does not know".into()),
    };
    let mut clusters = vec![];
    for _ in 0..number(&mut input, 65)? {
        clusters.push(Dimension { column: number(&mut input, columns)?, bins: Bins::read(&mut input)? });
    }
    if !input.is_empty() {
        return Err("bytes behind the end".into());
    }
    let names = key.iter().map(|column| schema.columns[*column].name.clone()).collect();
    Ok((PTableOptions { schema, key: names, clusters, order, node_bytes }, key))
}

/// Stores a description in units of its own. Durable after the next fence.
pub fn store(pool: &Pool, owner: u64, bytes: &[u8]) -> Result<()> {
    let room = (pool.unit_bytes() - super::super::pool::HEADER_BYTES) as usize;
    for (at, part) in bytes.chunks(room).enumerate() {
        let unit = pool.claim(UnitKind::Description, owner, (at as u64, 0))?;
        let start = pool.content(unit).start;
        pool.region().write(start, part);
        pool.region().flush(start, part.len() as u64);
    }
    Ok(())
}

/// The description in these units, of which the table says length and checksum.
pub fn load(
    pool: &Arc<Pool>,
    head: u64,
    units: &[UnitState],
    len: u64,
    check: u64,
) -> Result<(PTableOptions, Vec<usize>, Clusters)> {
    let wrong = |reason: &str| damaged(pool.region().as_ref(), head, format!("the table's description: {reason}"));
    let mut parts: Vec<&UnitState> = units.iter().filter(|unit| unit.kind == UnitKind::Description).collect();
    parts.sort_unstable_by_key(|unit| unit.values.0);
    if parts.iter().enumerate().any(|(at, unit)| unit.values.0 != at as u64) {
        return Err(wrong("a part is missing"));
    }
    let mut bytes = vec![];
    for unit in parts {
        let content = pool.content(unit.unit);
        pool.region().words().append_to(content.start, (content.end - content.start) as usize, &mut bytes);
    }
    if len > bytes.len() as u64 {
        return Err(wrong("it is longer than its units"));
    }
    bytes.truncate(len as usize);
    if u64::from(checksum(&bytes)) != check {
        return Err(wrong("its checksum is wrong"));
    }
    let (options, key) = parse(&bytes).map_err(|reason| wrong(&reason))?;
    debug_assert_eq!(names_to_columns(&options.schema, &options.key).ok().as_ref(), Some(&key));
    let clusters = Clusters::new(options.clusters.clone(), options.order.clone());
    let clusters = clusters.map_err(|error| wrong(&error.to_string()))?;
    Ok((options, key, clusters))
}
