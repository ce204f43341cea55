//! Malicious files: wrong counts, very many columns, data that expands to much text; and places that cannot be read or
//! written.

use std::fs;
use std::process::Command;

use arrow::record_batch::RecordBatch;
use futures::StreamExt;

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

/// The formats that are written, by their endings. One has several files.
const WRITTEN: [&str; 7] = ["csv", "csv.gz", "json", "json.zst", "ndjson.bz2", "parquet", "arrow"];

/// Set for the process that may write only small files.
const LIMITED: &str = "FREESTONE_TEST_LIMITED";

#[tokio::test]
async fn files_that_become_too_large_leave_the_old_ones() {
    if std::env::var_os(LIMITED).is_none() {
        // A process of its own, which gets an error instead of a signal when a file exceeds the limit.
        let program = std::env::current_exe().expect("this program");
        let run = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact \"$1\""])
            .arg(program)
            .arg("files_bad::files_that_become_too_large_leave_the_old_ones")
            .env(LIMITED, "1")
            .output()
            .expect("a shell");
        let text = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let place = Place::new();
    let large = "SELECT random() AS r, i FROM range(40000) t(i)";
    let names = || {
        let entries = fs::read_dir(place.path(".")).expect("a folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    for ending in WRITTEN {
        place.run(&format!("COPY (SELECT 7 AS i) TO '@/old.{ending}'")).await.expect("a small file");
    }
    let before = names();
    for ending in WRITTEN {
        let old = fs::read(place.path(&format!("old.{ending}"))).expect("the old file");
        for name in ["old", "new"] {
            let sql = format!("COPY ({large}) TO '@/{name}.{ending}'");
            place.check_error(&sql, &format!("cannot write {name}.{ending}")).await;
        }
        assert_eq!(fs::read(place.path(&format!("old.{ending}"))).expect("the old file"), old, "{ending}");
    }
    let parts = format!("COPY (SELECT *, i % 3 AS k FROM ({large})) TO '@/parts' (FORMAT csv, PARTITION_BY k)");
    place.check_error(&parts, "cannot write parts/k=0/data_0.csv").await;
    // Neither halves of files nor temporary ones remain.
    assert_eq!(names(), before);
    place.check("SELECT i FROM '@/old.parquet'", &["7"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_change_while_they_are_read() {
    let place = Place::new();
    let rows = "1234567,abcdefghijklmnopqrstuvwxyz\n".repeat(1_000_000);
    for (name, to) in [("part.csv", 35 * 400_000u64), ("empty.csv", 0)] {
        let path = place.path(name);
        fs::write(&path, &rows).expect("a file");
        let sql = format!("SELECT * FROM '{}' (HEADER false)", path.display());
        let outcome = place.session().sql(&sql).await.expect("a query");
        let freestone::Outcome::Rows { mut stream, .. } = outcome else { panic!("{sql}: no rows") };
        stream.next().await.expect("rows").expect("rows");
        // The cut is between two records, so that all that is left of the file is sound.
        fs::File::options().write(true).open(&path).and_then(|file| file.set_len(to)).expect("a shorter file");
        let mut failed = None;
        while let Some(batch) = stream.next().await {
            failed = batch.err().or(failed);
        }
        let failed = failed.expect("an error").to_string();
        assert!(failed.contains("changed while it was read"), "{failed}");
    }
    // A file that grows is read to an end that it had; one that is replaced, or removed, is read to its own end.
    let path = place.path("grown.csv");
    fs::write(&path, "a\n1\n").expect("a file");
    let outcome = place.session().sql(&format!("SELECT * FROM '{}'", path.display())).await.expect("a query");
    fs::write(&path, "a\n1\n2\n").expect("a longer file");
    assert_eq!(outcome.collect().await.expect("rows").iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    let outcome = place.session().sql(&format!("SELECT * FROM '{}'", path.display())).await.expect("a query");
    fs::remove_file(&path).expect("no file");
    let error = outcome.collect().await.expect_err("an error").to_string();
    assert!(error.contains("grown.csv") && error.contains("No such file"), "{error}");
    for name in ["gone.parquet", "gone.arrow"] {
        place.run(&format!("COPY (SELECT 1 AS a) TO '@/{name}'")).await.expect("a file");
        let sql = format!("SELECT * FROM '{}'", place.path(name).display());
        let outcome = place.session().sql(&sql).await.expect("a query");
        fs::remove_file(place.path(name)).expect("no file");
        let error = outcome.collect().await.expect_err("an error").to_string();
        assert!(error.contains(name) && error.contains("No such file"), "{error}");
        place.run(&format!("COPY (SELECT i AS a FROM range(9) t(i)) TO '@/{name}'")).await.expect("a file");
        let outcome = place.session().sql(&sql).await.expect("a query");
        fs::write(place.path(name), "short").expect("another file");
        let error = outcome.collect().await.expect_err("an error").to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[tokio::test]
async fn places_that_are_no_files() {
    let place = Place::new();
    place.run("CREATE TABLE t (a INT)").await.expect("a table");
    for ending in WRITTEN {
        let folder = format!("f.{ending}");
        place.path(&format!("{folder}/x"));
        place.check_error(&format!("SELECT * FROM '@/{folder}'"), "the folder holds no data file").await;
        place.check_error(&format!("COPY t FROM '@/{folder}'"), "the folder holds no data file").await;
        place.check_error(&format!("COPY t TO '@/{folder}'"), "is a folder").await;
        place.check_error(&format!("COPY t TO '@/{folder}/x/y.csv/'"), "is a folder").await;
    }
    place.write("file", "text");
    place.check_error("COPY t TO '@/file/x.csv'", "cannot write file/x.csv").await;
    place.check_error("SELECT * FROM '@/file/x.csv'", "file/x.csv: no such file").await;
    // The administrator may read and write everything.
    place.write("closed.csv", "a\n1\n");
    let permissions = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(place.path("closed.csv"), permissions(0o000)).expect("permissions");
    if fs::read(place.path("closed.csv")).is_err() {
        place.check_error("SELECT * FROM '@/closed.csv'", "closed.csv: Permission denied").await;
        place.check_error("COPY t FROM '@/closed.csv'", "closed.csv: Permission denied").await;
    }
    place.check_error("COPY t TO '@/closed.csv'", "cannot write closed.csv").await;
    assert!(fs::metadata(place.path("closed.csv")).is_ok_and(|metadata| metadata.len() == 4));
}
