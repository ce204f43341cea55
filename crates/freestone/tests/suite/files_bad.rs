//! Malicious files: wrong counts, very many columns, data that expands to much text; and places that cannot be read or
//! written.

use arrow::record_batch::RecordBatch;

use crate::files::{Place, longs};

#[tokio::test]
async fn hostile_files() {
    let place = Place::new();
    // A batch that claims more rows than there are bytes.
    let batch = RecordBatch::try_from_iter(vec![("a", longs(&[1, 2, 3]))]).expect("a batch");
    let mut bytes = vec![];
    let mut writer = arrow::ipc::writer::FileWriter::try_new(&mut bytes, &batch.schema()).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.finish().expect("a file");
    drop(writer);
    let three = 3i64.to_le_bytes();
    let lying: Vec<usize> = (0..bytes.len() - 8).filter(|at| bytes[*at..*at + 8] == three).collect();
    for at in lying {
        let mut lie = bytes.clone();
        lie[at..at + 8].copy_from_slice(&(1i64 << 62).to_le_bytes());
        place.write("l.arrow", lie);
        for sql in ["SELECT count(*) FROM '@/l.arrow'", "SELECT sum(a) FROM '@/l.arrow'"] {
            if let Err(error) = place.run(sql).await {
                assert!(error.contains("l.arrow"), "{error}");
            }
        }
    }
    // 20,000 columns.
    let names: Vec<String> = (0..20_000).map(|at| format!("c{at}")).collect();
    let ones = vec!["1"; 20_000].join(",");
    place.write("wide.csv", format!("{}\n{ones}\n{ones}\n", names.join(",")));
    place.check("SELECT sum(c19999), count(*) FROM '@/wide.csv'", &["2|2"]).await;
    let members: Vec<String> = names.iter().map(|name| format!("\"{name}\":1")).collect();
    place.write("wide.json", format!("{{{}}}\n", members.join(",")).repeat(2));
    place.check("SELECT sum(c19999), count(*) FROM '@/wide.json'", &["2|2"]).await;
    // Much text in few bytes, which is read in blocks.
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
    std::io::Write::write_all(&mut packed, "a\n".repeat(30_000_000).as_bytes()).expect("bytes");
    place.write("bomb.csv.gz", packed.finish().expect("bytes"));
    place.check("SELECT count(*) FROM '@/bomb.csv.gz' (HEADER true)", &["29999999"]).await;
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
    std::io::Write::write_all(&mut packed, &vec![b'x'; 100 << 20]).expect("bytes");
    place.write("line.csv.gz", packed.finish().expect("bytes"));
    place.check_error("SELECT count(*) FROM '@/line.csv.gz'", "a record longer than 64 MiB").await;
    // A folder with the name of a file, a file that disappears, and one without read permission.
    place.path("folder.parquet/x");
    place.check_error("SELECT * FROM '@/folder.parquet'", "the folder holds no data file, it is empty").await;
    place.check_error("SELECT * FROM '@/gone.parquet'", "gone.parquet: no such file").await;
}

#[tokio::test]
async fn disks_fill_while_files_are_written() {
    let place = Place::new();
    // A device that is always full.
    if std::path::Path::new("/dev/full").exists() {
        place.check_error("COPY (SELECT 1 AS a) TO '/dev/full' (FORMAT csv)", "cannot write /dev/full").await;
        place.check_error("COPY (SELECT 1 AS a) TO '/dev/full' (FORMAT parquet)", "/dev/full").await;
    }
}
