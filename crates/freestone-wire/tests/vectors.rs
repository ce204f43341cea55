//! The code writes the test vectors of `docs/protocol.md`, and the document has every id of the code.

use std::fs;

use freestone_wire::frame::{Blob, Message, frame};
use freestone_wire::message::*;

fn document() -> String {
    fs::read_to_string("../../docs/protocol.md").unwrap()
}

fn check<M: Message + PartialEq + std::fmt::Debug>(document: &str, name: &str, id: u32, message: M) {
    let bytes = frame(id, &message);
    assert_eq!(M::parse(&bytes[16..]).unwrap(), message);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let line = format!("| {name} | {id} | `{hex}` |");
    assert!(document.contains(&line), "docs/protocol.md does not have\n{line}");
}

#[test]
fn messages_have_the_bytes_of_the_document() {
    let document = document();
    let purpose = Purpose::Session { client_first: "n,,n=ann,r=abc".into() };
    let hello = Hello {
        magic: MAGIC,
        version_min: 1,
        version_max: 1,
        chunk_bytes_max: 1 << 20,
        capabilities: 31,
        client: "c".into(),
        purpose,
    };
    check(&document, "Hello", 0, hello);
    let run = Run { credit: 8, parameter_columns: vec![], parameters: Blob(vec![]) };
    check(&document, "Query", 1, Query { run, text: "SELECT 1".into() });
    check(&document, "Credit", 1, Credit { chunks: 4 });
    check(&document, "Cancel", 1, Cancel {});
    check(&document, "Grow", 1, Grow { bytes: 3_000_064 });
    let column = ColumnDescription { name: "n".into(), nullable: true, data_type: "int64".into(), arrow: None };
    check(&document, "Header", 1, Header { columns: vec![column] });
    check(&document, "Complete", 1, Complete { rows: 3, tag: "SELECT".into(), server_us: 250 });
    let failure =
        Failure { sqlstate: "42703".into(), message: "no x".into(), hint: Some("y".into()), position: Some(8) };
    check(&document, "Error", 1, failure);
    check(&document, "Ping", 0, Ping { number: 7 });
}

#[test]
fn every_id_of_the_code_stands_in_the_document() {
    let document = document();
    for (file, name, least) in
        [("frame", "Kind", 28), ("column/mod", "Form", 9), ("column/mod", "ByteCodec", 4), ("column/mod", "Nulls", 4)]
    {
        let source = fs::read_to_string(format!("src/{file}.rs")).unwrap();
        let body = source.split(&format!("pub enum {name} {{")).nth(1).unwrap().split("\n}").next().unwrap();
        let ids: Vec<(&str, &str)> =
            body.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = ")).collect();
        assert!(ids.len() >= least, "{name} has {ids:?}");
        for (variant, id) in ids {
            assert!(document.contains(&format!("| {id} | {variant} |")), "no row `| {id} | {variant} |` of {name}");
        }
    }
}
