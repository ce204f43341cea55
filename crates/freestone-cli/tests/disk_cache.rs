//! Pages of a database in a store that are kept on a disk of this machine: `--cache`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use freestone_mock_store::Server;
use tempfile::TempDir;

const DATABASE: &str = "s3://data/db";
const QUERY: &str = "SELECT count(*), sum(a), sum(b), max(b) FROM t WHERE b % 7 <> 1";
/// The header of a block in a volume, before its content.
const HEADER_LEN: usize = 44;

/// A store with a table of a few megabytes, and what the query gives.
struct Data {
    server: Server,
    folder: TempDir,
    expected: String,
}

impl Data {
    fn make() -> Data {
        let server = Server::start().expect("a store");
        server.create_bucket("data");
        let data = Data { server, folder: TempDir::new().expect("a folder"), expected: String::new() };
        let made = "CREATE TABLE t AS SELECT i AS a, (i * 2654435761) % 1000000007 AS b FROM range(500000) AS r(i)";
        let output = data.run(&[DATABASE, "-c", made]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let expected = data.answer(&[]);
        Data { expected, ..data }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_freestone"));
        command.args(arguments).envs(self.server.environment()).output().expect("the program runs")
    }

    /// What the query gives.
    fn answer(&self, more: &[&str]) -> String {
        let output = self.run(&[&[DATABASE, "--format", "csv", "-c", QUERY][..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The bytes that the store sends for the query, whose answer must be right.
    fn sent(&self, cache: &str) -> u64 {
        self.server.take_traffic();
        assert_eq!(self.answer(&["--cache", cache]), self.expected);
        self.server.take_traffic().sent_bytes
    }

    fn cache(&self) -> (PathBuf, String) {
        let path = self.folder.path().join("cache");
        (path.clone(), path.display().to_string())
    }

    /// The largest object with rows.
    fn segment(&self) -> String {
        let keys = self.server.keys("data").into_iter().filter(|key| key.ends_with(".seg"));
        keys.max_by_key(|key| self.server.get("data", key).map_or(0, |bytes| bytes.len())).expect("a segment")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn volumes(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache).expect("a folder").map(|entry| entry.expect("an entry").path());
    let is_volume = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("volume-"));
    entries.filter(is_volume).collect()
}

#[test]
fn pages_are_asked_for_once() {
    let data = Data::make();
    let (path, cache) = data.cache();
    let (first, second) = (data.sent(&cache), data.sent(&cache));
    assert!(second * 3 < first, "{second} of {first} bytes");
    let kept: u64 = volumes(&path).iter().map(|volume| volume.metadata().expect("a file").len()).sum();
    assert!(kept > 1 << 20, "{kept}");
    // A smaller cache keeps less, and gives the same rows.
    assert_eq!(data.answer(&["--cache", &cache, "--cache-size", "256KiB"]), data.expected);
    let kept: u64 = volumes(&path).iter().map(|volume| volume.metadata().expect("a file").len()).sum();
    assert!(kept <= 256 << 10, "{kept}");
}

#[test]
fn a_damaged_block_is_fetched_again() {
    let data = Data::make();
    let (path, cache) = data.cache();
    let first = data.sent(&cache);
    for volume in volumes(&path) {
        let (mut bytes, mut at) = (fs::read(&volume).expect("a volume"), 0);
        while at < bytes.len() {
            let len = u32::from_le_bytes(bytes[at + 32..at + 36].try_into().expect("four bytes")) as usize;
            bytes[at + HEADER_LEN + len / 2] ^= 0x10;
            at += HEADER_LEN + len;
        }
        fs::write(&volume, &bytes).expect("written");
    }
    let (again, then) = (data.sent(&cache), data.sent(&cache));
    assert!(again * 10 > first * 8, "{again} of {first} bytes");
    assert!(then * 3 < first, "{then} of {first} bytes");
}

#[test]
fn a_damaged_object_is_named_and_not_kept() {
    let data = Data::make();
    let (_, cache) = data.cache();
    let segment = data.segment();
    let sound = data.server.get("data", &segment).expect("an object");
    let mut damaged = sound.clone();
    damaged[sound.len() / 3] ^= 0x10;
    data.server.put("data", &segment, damaged);
    for more in [vec![], vec!["--cache", cache.as_str()]] {
        let output = data.run(&[&[DATABASE, "-c", QUERY][..], more.as_slice()].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        let file = segment.trim_start_matches("db/");
        assert!(error.contains(file) && error.contains("page "), "{error}");
    }
    data.server.put("data", &segment, sound);
    data.sent(&cache);
    // CHECK reads what the store has, whatever is kept of it.
    let mut damaged = data.server.get("data", &segment).expect("an object");
    damaged[1000] ^= 0x10;
    data.server.put("data", &segment, damaged);
    assert_eq!(data.answer(&["--cache", &cache]), data.expected);
    let output = data.run(&["check", DATABASE, "--cache", &cache]);
    assert!(!output.status.success() && text(&output.stderr).contains("page "), "{}", text(&output.stderr));
}

#[test]
fn a_full_disk_costs_time_and_no_rows() {
    let data = Data::make();
    let (path, cache) = data.cache();
    let script = format!(
        "trap '' XFSZ; ulimit -f 200; exec {} {DATABASE} --format csv --cache {cache} -c '{QUERY}'",
        env!("CARGO_BIN_EXE_freestone")
    );
    let mut command = Command::new("sh");
    let output = command.args(["-c", &script]).envs(data.server.environment()).output().expect("the program runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), data.expected);
    let largest = volumes(&path).iter().map(|volume| volume.metadata().expect("a file").len()).max();
    assert!(largest.is_some_and(|bytes| bytes <= 200 << 10), "{largest:?}");
    // With room again, the rest is kept.
    let first = data.sent(&cache);
    assert!(data.sent(&cache) * 3 < first);
}

#[test]
fn wrong_uses_are_refused() {
    let data = Data::make();
    let (_, cache) = data.cache();
    let folder = data.folder.path().join("plain").display().to_string();
    for (arguments, status, part) in [
        (vec![folder.as_str(), "--cache", &cache, "-c", "SELECT 1"], 1, "the database is on this machine"),
        (vec!["--cache", &cache, "-c", "SELECT 1"], 1, "the database is on this machine"),
        (vec![DATABASE, "--cache", "/dev/null/x", "-c", "SELECT 1"], 1, "/dev/null/x"),
        (vec![DATABASE, "--cache-size", "1GB", "-c", "SELECT 1"], 2, "--cache"),
    ] {
        let output = data.run(&arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert!(error.contains(part), "{part}: {error}");
    }
    // Of two processes with the same folder, the second one is refused.
    let sleeping = format!("\\! {} {DATABASE} --cache {cache} -c 'SELECT 1'\n", env!("CARGO_BIN_EXE_freestone"));
    let script = data.folder.path().join("script.sql");
    fs::write(&script, sleeping).expect("written");
    let output = data.run(&[DATABASE, "--cache", &cache, "-f", &script.display().to_string()]);
    assert!(text(&output.stderr).contains("another process uses this cache"), "{}", text(&output.stderr));
}
