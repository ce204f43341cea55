//! Bytes that nobody wrote, with valid checksums: parsers and decoders give errors or wrong values, never a panic, a
//! read out of bounds, or an allocation that the bytes do not justify.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::*;
use crc_fast::{CrcAlgorithm, Digest as Crc, crc32_iscsi};
use freestone_codec::{BytesPredicate, IntPredicate, Predicate};
use freestone_store::fuzz::{fuzz_commit, fuzz_footer, fuzz_page};
use freestone_store::media::Memory;
use freestone_store::page;
use freestone_store::scan::{ColumnPredicate, ScanRequest};
use freestone_store::segment::footer::{Footer, TRAILER, parse_trailer};
use freestone_store::{Store, StoreOptions};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

type Files = BTreeMap<String, Vec<u8>>;

/// One table of 400 rows in a design, converted so that it is in a file.
fn database(options: Options) -> Files {
    let memory = Memory::new();
    let store = open(memory.clone()).expect("opens");
    let mut transaction = store.write().expect("writes");
    transaction.create_table("t", table_schema(), design(options)).expect("creates");
    append(&mut transaction, "t", &batch(0..400)).expect("appends");
    transaction.commit().expect("commits");
    let mut transaction = store.write().expect("writes");
    transaction.convert("t", design(options)).expect("converts");
    transaction.commit().expect("commits");
    let mut transaction = store.write().expect("writes");
    delete(&mut transaction, "t", keys_between(20, 30)).expect("deletes");
    append(&mut transaction, "t", &batch(500..520)).expect("appends");
    transaction.commit().expect("commits");
    drop(store);
    let mut files = memory.files();
    ["PINS", "RESERVE"].iter().for_each(|name| drop(files.remove(*name)));
    files
}

fn segment_name(files: &Files) -> String {
    files.keys().find(|name| name.ends_with(".seg")).expect("a segment file").clone()
}

/// Opens, scans with and without predicates, checks, and vacuums. All of it may fail.
fn exercise(files: &Files) {
    let options = StoreOptions { threads: 1, ..options() };
    let Ok(store) = Store::on_medium(Arc::new(Memory::with_files(files.clone())), options) else { return };
    let Ok(snapshot) = store.snapshot() else { return };
    for table in snapshot.tables() {
        let columns = table.schema.columns.len();
        let _ = scan(table, ScanRequest::columns((0..columns).collect()));
        for column in 0..columns {
            let predicates = [
                Predicate::IsNull,
                Predicate::Int(IntPredicate::Range { low: 3, high: i128::MAX }),
                Predicate::Int(IntPredicate::NotIn(vec![i128::MIN, 5, i128::MAX])),
                Predicate::Bytes(BytesPredicate::Prefix(b"row number 1".to_vec())),
            ];
            for predicate in predicates {
                let mut request = ScanRequest::columns((0..columns).collect());
                request.predicates = vec![ColumnPredicate { column, predicate }];
                let _ = scan(table, request);
            }
        }
    }
    drop(snapshot);
    let _ = store.check(None);
    let _ = store.vacuum(None);
}

/// Changes some bytes of a range: bits, extremes, runs.
fn mutate(bytes: &mut [u8], random: &mut StdRng) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..5) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)],
            2 => bytes[at] = random.random(),
            3 => {
                let end = (at + random.random_range(1..9)).min(bytes.len());
                bytes[at..end].fill(0xff);
            }
            _ => {
                let other = random.random_range(0..bytes.len());
                bytes.swap(at, other);
            }
        }
    }
}

#[test]
fn mutated_pages_under_valid_checksums() {
    for (which, options) in DESIGNS.iter().enumerate() {
        let files = database(options);
        let name = segment_name(&files);
        let file = &files[&name];
        let trailer = parse_trailer(&file[file.len() - TRAILER..]).expect("a trailer");
        let size = trailer.page_size as usize;
        let footer_at = trailer.index as usize * size;
        // Every page of the file, including dictionaries and footer.
        let mut pages = vec![];
        let mut at = 0;
        while at < file.len() - TRAILER {
            let units = usize::from(page::header(&file[at..]).units);
            pages.push((at, units * size));
            at += units * size;
        }
        assert!(pages.iter().any(|(at, _)| *at == footer_at));
        let mut random = StdRng::seed_from_u64(which as u64);
        for (at, len) in pages {
            for round in 0..1200 / stride(12) {
                let mut files = files.clone();
                let page = &mut files.get_mut(&name).expect("the file")[at..at + len];
                let payload = page::header(page).payload as usize;
                // Most of the structure is at the start. In the footer it is everywhere.
                let most = if round % 3 == 0 || at == footer_at { payload } else { payload.min(120) };
                mutate(&mut page[page::HEADER..page::HEADER + most], &mut random);
                page::relocate(page, (at / size) as u32);
                exercise(&files);
            }
        }
    }
}

#[test]
fn mutated_commits_under_valid_checksums() {
    let mut random = StdRng::seed_from_u64(5);
    let files = database(DESIGNS[1]);
    let name = files.keys().find(|name| name.starts_with("manifest-")).expect("a log").clone();
    let generation = u64::from_le_bytes(files[&name][16..24].try_into().expect("8 bytes"));
    let mut records = vec![];
    let mut at = 48;
    while at + 24 <= files[&name].len() {
        let len = u32::from_le_bytes(files[&name][at + 4..at + 8].try_into().expect("4 bytes")) as usize;
        records.push((at, len));
        at += (24 + len).next_multiple_of(8);
    }
    assert_eq!(records.len(), 3);
    for (at, len) in records {
        for round in 0..6000 / stride(6) {
            let mut files = files.clone();
            let record = &mut files.get_mut(&name).expect("the log")[at..at + 24 + len];
            let body = &mut record[24..];
            let json = 4 + u32::from_le_bytes(body[..4].try_into().expect("4 bytes")) as usize;
            match round % 4 {
                // Digits in the operations, so that they still parse.
                0 | 1 => change_a_digit(&mut body[4..json], &mut random),
                2 => mutate(&mut body[json..], &mut random),
                _ => mutate(body, &mut random),
            }
            fuzz_commit(body);
            seal_record(record, generation);
            exercise(&files);
        }
    }
}

fn change_a_digit(json: &mut [u8], random: &mut StdRng) {
    let digits: Vec<usize> = (0..json.len()).filter(|at| json[*at].is_ascii_digit()).collect();
    if !digits.is_empty() {
        json[digits[random.random_range(0..digits.len())]] = b'0' + random.random_range(0..10u8);
    }
}

/// Makes the checksums of a record match its body.
fn seal_record(record: &mut [u8], generation: u64) {
    let body_crc = crc32_iscsi(&record[24..]);
    record[20..24].copy_from_slice(&body_crc.to_le_bytes());
    let mut crc = Crc::new(CrcAlgorithm::Crc32Iscsi);
    crc.update(&generation.to_le_bytes());
    crc.update(&record[..16]);
    crc.update(&record[20..24]);
    record[16..20].copy_from_slice(&(crc.finalize() as u32).to_le_bytes());
}

/// Counts that exceed the bytes must be rejected.
#[test]
fn footers_with_huge_counts() {
    let files = database(DESIGNS[0]);
    let file = &files[&segment_name(&files)];
    let trailer = parse_trailer(&file[file.len() - TRAILER..]).expect("a trailer");
    let size = trailer.page_size as usize;
    let footer_page = &file[trailer.index as usize * size..];
    let footer = Footer::parse(page::payload(footer_page, &page::header(footer_page))).expect("a footer");
    for (rows, zone_rows, pages, page_size) in [
        (u32::MAX, 64, 1, 4096),
        (u32::MAX, 8192, u32::MAX, 4096),
        (0, 0, u32::MAX, 0),
        (400, u32::MAX, 1, u32::MAX),
        (400, 8192, 1, 1 << 31),
        (1, 1 << 31, 1, 1 << 31),
    ] {
        let mut footer = footer.clone();
        footer.description.rows = rows;
        footer.description.zone_rows = zone_rows;
        footer.description.page_size = page_size;
        footer.description.groups.iter_mut().for_each(|g| (g.pages, g.end) = (pages, u32::MAX));
        fuzz_footer(&footer.to_bytes());
    }
}

#[test]
fn targets_on_seeded_random_bytes() {
    let mut random = StdRng::seed_from_u64(11);
    for round in 0..20_000 {
        let len = random.random_range(0..500);
        let mut data: Vec<u8> = (0..len).map(|_| random.random()).collect();
        fuzz_page(&data);
        fuzz_footer(&data);
        fuzz_commit(&data);
        if data.len() > 40 {
            // A dense page whose header and directory can be valid.
            (data[0], data[1], data[2], data[3]) = (1, data[1] % 50, 0, (data[3] % 8) | (round as u8 % 4) << 3);
            (data[4], data[5]) = (1, 0);
            (data[6], data[7]) = (data[6] % 3, data[7] % 3);
            let (tuples, levels) = (20 + u32::from(data[8] % 30), 100 + u32::from(data[9]));
            for (at, offset) in [tuples, levels, levels + 40, levels + 80].into_iter().enumerate() {
                data[8 + at * 4..12 + at * 4].copy_from_slice(&offset.to_le_bytes());
            }
            fuzz_page(&data);
        }
    }
}
