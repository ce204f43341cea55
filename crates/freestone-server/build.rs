//! Makes a table of the files of the console's page, which become part of the program. Node is not needed: the files are built and
//! compressed where the page is changed, and stored with its sources.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Where the files of the page are.
const DIST: &str = "../../console/dist";

/// The forms of a file: as it is, and compressed.
#[derive(Default)]
struct Forms {
    plain: Option<PathBuf>,
    gzip: Option<PathBuf>,
    brotli: Option<PathBuf>,
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={DIST}");
    let mut files = BTreeMap::new();
    collect(Path::new(DIST), "", &mut files);
    assert!(files.contains_key("/index.html"), "{DIST} has no index.html: build the page, see console/README.md");
    let mut table = String::from("static FILES: &[File] = &[\n");
    for (path, forms) in &files {
        let Forms { plain, gzip, brotli } = forms;
        assert!(plain.is_some() || gzip.is_some(), "{DIST}{path}.br has neither a .gz nor the plain file next to it");
        // What can be unpacked needs no place.
        let plain = plain.as_ref().filter(|_| gzip.is_none());
        let _ = writeln!(
            table,
            "    File {{ path: {path:?}, kind: {:?}, plain: {}, gzip: {}, brotli: {} }},",
            kind(path),
            included(plain),
            included(gzip.as_ref()),
            included(brotli.as_ref()),
        );
    }
    table.push_str("];\n");
    let output = Path::new(&env::var("OUT_DIR").expect("Cargo sets OUT_DIR")).join("console_files.rs");
    fs::write(output, table).expect("the table of files is written");
}

/// The files of a folder and of those within, by their paths in addresses.
fn collect(folder: &Path, address: &str, files: &mut BTreeMap<String, Forms>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap_or_else(|name| panic!("{name:?} is no text"));
        let address = format!("{address}/{name}");
        if path.is_dir() {
            collect(&path, &address, files);
            continue;
        }
        let path = Some(fs::canonicalize(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        if let Some(of) = address.strip_suffix(".gz") {
            files.entry(of.to_owned()).or_default().gzip = path;
        } else if let Some(of) = address.strip_suffix(".br") {
            files.entry(of.to_owned()).or_default().brotli = path;
        } else {
            files.entry(address).or_default().plain = path;
        }
    }
}

fn included(file: Option<&PathBuf>) -> String {
    file.map_or("None".to_owned(), |file| format!("Some(include_bytes!({file:?}))"))
}

/// The media type of a file, by its name.
fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
