//! Databases of every format version that was ever written: `tests/fixtures/format-N` has a database, the statements that made it
//! (`made.sql`), queries (`queries.sql`) and their answers (`answers.csv`). A database here is never generated again. This
//! version must give the same answers, and write to a copy, after `freestone upgrade` if it is of an earlier version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use freestone::FORMAT_VERSION;

const FIXTURES: &str = "tests/fixtures";

/// The folders of all format versions, with the version of each.
fn fixtures() -> Vec<(u32, PathBuf)> {
    let folders = fs::read_dir(FIXTURES).expect("the fixtures are there").map(|entry| entry.expect("listed").path());
    let version = |path: &Path| path.file_name()?.to_str()?.strip_prefix("format-")?.parse().ok();
    folders.filter_map(|path| Some((version(&path)?, path))).collect()
}

/// A copy of a database, because opening it for writing changes it.
fn copy(fixture: &Path, to: &Path) -> PathBuf {
    let db = to.join("db");
    copy_folder(&fixture.join("db"), &db);
    db
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("listed") {
        let path = entry.expect("listed").path();
        let target = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy_folder(&path, &target),
            false => drop(fs::copy(&path, &target).expect("copied")),
        }
    }
}

fn freestone(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_freestone")).args(arguments).output().expect("the program starts")
}

/// The standard output of a call that must succeed.
#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let output = freestone(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The fixture of a version, copied to a folder.
fn copy_of(version: u32, folder: &Path) -> String {
    let (_, fixture) = fixtures().into_iter().find(|(found, _)| *found == version).expect("a fixture of the version");
    copy(&fixture, folder).to_str().expect("UTF-8").to_owned()
}

/// The errors of a call that must fail.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = freestone(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
    errors
}

#[test]
fn databases_of_all_versions_have_their_answers() {
    let found = fixtures();
    assert!(found.iter().any(|(version, _)| *version == FORMAT_VERSION), "{FIXTURES} has no database of this version");
    for (version, fixture) in found {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let db = copy(&fixture, folder.path());
        let (db, queries) = (db.to_str().expect("UTF-8"), fixture.join("queries.sql"));
        let queries = queries.to_str().expect("UTF-8");
        let answers = fs::read_to_string(fixture.join("answers.csv")).expect("the answers are there");
        let arguments = [db, "--read-only", "-f", queries, "--format", "csv"];
        assert_eq!(printed(&arguments), answers, "version {version}");
        assert!(printed(&["check", db]).starts_with("sound"), "version {version}");
        let outcome = if version == FORMAT_VERSION { "nothing to do" } else { "and has version" };
        assert!(printed(&["upgrade", db]).contains(outcome), "version {version}");
        assert!(printed(&["upgrade", db]).contains("nothing to do"), "version {version}");
        assert_eq!(printed(&arguments), answers, "version {version}, upgraded");
        // Opened for writing, it takes rows, and still has those that it had.
        let count = ["-c", "SELECT count(*) AS n FROM facts", "--format", "csv"];
        let before = printed(&[&[db], &count[..]].concat());
        printed(&[
            db,
            "-c",
            "INSERT INTO facts SELECT * FROM facts LIMIT 1; DELETE FROM facts WHERE id = 7 AND day IS NULL",
        ]);
        assert_ne!(printed(&[&[db], &count[..]].concat()), before, "version {version}");
        assert!(printed(&["check", db]).starts_with("sound"), "version {version}");
    }
}

#[test]
fn an_earlier_version_is_written_after_its_upgrade() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let db = &copy_of(2, folder.path());
    let current = fs::read(Path::new(db).join("CURRENT")).expect("read");
    let errors = refused(&[db, "-c", "CREATE TABLE new (a INT)"]);
    assert!(errors.contains("format version 2") && errors.contains("freestone upgrade"), "{errors}");
    assert_eq!(fs::read(Path::new(db).join("CURRENT")).expect("read"), current, "the database was changed");
    printed(&["upgrade", db]);
    // What depends on what is known now, and what belonged to tables still does.
    let errors = refused(&[db, "-c", "DROP TABLE facts"]);
    assert!(errors.contains("view big"), "{errors}");
    let errors = refused(&[db, "-c", "DROP SEQUENCE numbers"]);
    assert!(errors.contains("numbered"), "{errors}");
    let script = "ALTER TABLE facts RENAME TO events; INSERT INTO numbered (text) VALUES ('c'); \
                  INSERT INTO other.people (name, feels) VALUES ('Dan', 'ok'); \
                  SELECT (SELECT count(*) FROM bigger) AS n, (SELECT max(n) FROM numbered) > 15 AS goes_on, \
                  (SELECT twice = 2 * id AND id > 3 FROM other.people WHERE name = 'Dan') AS is_new";
    let answer = printed(&[db, "-c", script, "--format", "csv"]);
    assert!(answer.ends_with("n,goes_on,is_new\n59,true,true\n"), "{answer}");
    printed(&[db, "-c", "DROP INDEX by_ratio; DROP MACRO added; DROP SCHEMA other CASCADE; DROP VIEW bigger"]);
    assert!(printed(&["check", db]).starts_with("sound"));
}

#[test]
fn a_backup_of_an_earlier_version_can_be_restored() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let earlier = copy_of(2, folder.path());
    let db = folder.path().join("restored").to_str().expect("UTF-8").to_owned();
    let restore = format!("RESTORE FROM '{earlier}'; SELECT count(*) AS n FROM bigger");
    assert!(printed(&[&db, "-c", &restore, "--format", "csv"]).ends_with("n\n59\n"));
}

#[test]
fn other_versions_are_errors_that_say_what_to_do() {
    for (version, hint) in [(1, "export"), (FORMAT_VERSION + 1, "newer"), (999, "newer")] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let db = PathBuf::from(copy_of(FORMAT_VERSION, folder.path()));
        set_version(&db.join("CURRENT"), 64, version);
        let before = fs::read(db.join("CURRENT")).expect("read");
        let output = freestone(&["upgrade", db.to_str().expect("UTF-8")]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(&format!("format version {version}")) && errors.contains(hint), "{errors}");
        assert_eq!(fs::read(db.join("CURRENT")).expect("read"), before, "the database was changed");
    }
}

/// Sets the version of a file with an envelope of `len` bytes: the version is at byte 8, and a checksum at the end.
fn set_version(file: &Path, len: usize, version: u32) {
    let mut bytes = fs::read(file).expect("read");
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let crc = crc32c(&bytes[..len - 4]);
    bytes[len - 4..len].copy_from_slice(&crc.to_le_bytes());
    fs::write(file, bytes).expect("written");
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}
