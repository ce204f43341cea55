//! Rules for the source code that readers rely on, as tests: the allowed dependencies between crates, documentation
//! of every id on disk, and no paths of a developer's machine. Clippy checks that no code unwraps (see `clippy.toml`).

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that each crate may depend on. Data flows from left to right.
const MAY_DEPEND_ON: [(&str, &[&str]); 19] = [
    ("freestone-codec", &[]),
    ("freestone-store", &["freestone-codec"]),
    ("freestone-advisor", &["freestone-codec", "freestone-store"]),
    ("freestone-mock-store", &[]),
    ("freestone-bucket", &["freestone-store"]),
    ("freestone-exec", &["freestone-codec", "freestone-store"]),
    ("freestone-sql", &[]),
    ("freestone-binder", &["freestone-sql"]),
    (
        "freestone",
        &[
            "freestone-advisor",
            "freestone-binder",
            "freestone-bucket",
            "freestone-codec",
            "freestone-exec",
            "freestone-sql",
            "freestone-store",
        ],
    ),
    ("freestone-data", &[]),
    ("freestone-report", &["freestone-advisor"]),
    ("freestone-demo", &["freestone", "freestone-data", "freestone-report"]),
    (
        "freestone-lab",
        &[
            "freestone",
            "freestone-advisor",
            "freestone-codec",
            "freestone-data",
            "freestone-demo",
            "freestone-report",
            "freestone-store",
            "freestone-wire",
        ],
    ),
    ("freestone-cluster", &["freestone"]),
    ("freestone-wire", &["freestone-codec", "freestone-store"]),
    ("freestone-server", &["freestone", "freestone-sql", "freestone-wire"]),
    ("freestone-adbc", &["freestone", "freestone-wire"]),
    ("freestone-python", &["freestone", "freestone-adbc", "freestone-wire"]),
    (
        "freestone-cli",
        &["freestone", "freestone-cluster", "freestone-demo", "freestone-report", "freestone-server", "freestone-wire"],
    ),
];

#[test]
fn the_documented_version_of_shared_logs_is_that_of_the_code() {
    let text = fs::read_to_string(root().join("docs/format/shared_log.md")).expect("the page is there");
    let version = freestone::FORMAT_VERSION;
    for part in [format!("\"format\":{version},"), format!("|u32 = {version} |")] {
        assert!(text.contains(&part), "docs/format/shared_log.md does not say {part}");
    }
}

#[test]
fn dependencies_point_one_way() {
    let mut found: Vec<String> = folders(&root().join("crates"));
    // This crate is generated and has no code. It only unifies the features of shared dependencies.
    found.retain(|name| name != "workspace-hack");
    found.sort();
    let mut known: Vec<_> = MAY_DEPEND_ON.iter().map(|(name, _)| (*name).to_owned()).collect();
    known.sort();
    assert_eq!(found, known, "a new crate needs its line in MAY_DEPEND_ON and in ARCHITECTURE.md");
    for (name, allowed) in MAY_DEPEND_ON {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        assert!(manifest.contains(&format!("name = \"{name}\"")), "a crate is named as its folder: {name}");
        for inherited in ["license.workspace", "edition.workspace", "[lints]\nworkspace = true"] {
            assert!(manifest.contains(inherited), "{name} does not inherit {inherited}");
        }
        let ours = dependencies(&manifest).into_iter().filter(|d| known.contains(d));
        let wrong: Vec<_> = ours.filter(|d| !allowed.contains(&d.as_str())).collect();
        assert!(wrong.is_empty(), "{name} must not depend on {wrong:?}");
    }
}

#[test]
fn nothing_below_the_engine_knows_what_is_above() {
    let below = [
        "freestone-codec",
        "freestone-store",
        "freestone-bucket",
        "freestone-advisor",
        "freestone-exec",
        "freestone-sql",
    ];
    for name in below {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let above = dependencies(&manifest).into_iter().find(|d| d.contains("datafusion") || d.contains("sqlparser"));
        assert_eq!(above, None, "{name} must not know SQL");
        check_code(name, &["datafusion", "sqlparser"], "knows SQL");
    }
    // Its parser, planner and reader of files are ours: DataFusion's are not compiled.
    let features = read("Cargo.toml");
    for feature in ["\"sql\"", "\"parquet\""] {
        assert!(!features.contains(feature), "Cargo.toml has DataFusion's feature {feature}");
    }
    let purity = ["std::fs", "std::net", "std::thread", "std::time", "std::env", "std::process", "arrow_", "rand::"];
    check_code("freestone-codec", &purity, "is values and bytes only");
}

/// Checks that no line of a crate's code outside its tests contains one of the words.
fn check_code(crate_name: &str, words: &[&str], rule: &str) {
    for (file, line, code) in product_code(crate_name) {
        let word = words.iter().find(|word| code.contains(*word));
        assert_eq!(word, None, "{file}:{line}: {crate_name} {rule}: {code}");
    }
}

#[test]
fn every_id_on_disk_is_documented() {
    let values = read("crates/freestone-codec/src/values.rs");
    let chunks = read("docs/format/chunks.md").to_lowercase();
    for (name, count) in [("Kind", 5), ("Transform", 4), ("Encoding", 9)] {
        let ids = variants(&values, name);
        assert!(ids.len() >= count, "{name} has {} variants", ids.len());
        for (variant, id) in ids {
            let entry = format!("{id} {}", variant.to_lowercase());
            assert!(chunks.contains(&entry), "docs/format/chunks.md has no `{entry}` of {name}");
        }
    }
    let pages = read("docs/format/pages.md");
    let formats = variants(&read("crates/freestone-store/src/design.rs"), "PageFormat");
    assert!(formats.len() >= 3);
    for (format, id) in formats {
        let name = format.to_lowercase();
        assert!(pages.contains(&format!("{id} {name}")), "docs/format/pages.md has no `{id} {name}`");
        assert!(pages.contains(&format!("kind {id}\n")), "docs/format/pages.md has no section of kind {id}");
    }
    let blob = constant(&read("crates/freestone-store/src/page.rs"), "KIND_BLOB");
    assert!(pages.contains(&format!("{blob} blob")), "docs/format/pages.md has no `{blob} blob`");
}

#[test]
fn every_magic_number_and_name_on_disk_is_documented() {
    let format = documents("docs/format");
    let mut magics = 0;
    for (file, line, code) in product_code("freestone-store").into_iter().chain(product_code("freestone-codec")) {
        let Some((_, rest)) = code.split_once("MAGIC: ") else { continue };
        let magic = quoted(rest).into_iter().next().unwrap_or_else(|| panic!("{file}:{line}: a magic number is text"));
        assert!(format.contains(&magic), "{file}:{line}: {magic} is not in docs/format");
        magics += 1;
    }
    assert!(magics >= 4, "only {magics} magic numbers were found");
    let footer = read("crates/freestone-store/src/segment/footer.rs");
    check_documented(&quoted(&item(&footer, "const TRANSFORMS")), "docs/format/segments.md", 4);
    check_documented(&quoted(&item(&footer, "const ENCODINGS")), "docs/format/segments.md", 9);
    let operations =
        names_of_variants(&item(&read("crates/freestone-store/src/store/commit.rs"), "pub enum Operation"));
    check_documented(&operations, "docs/format/commits.md", 10);
    let kinds = names_of_variants(&item(&read("crates/freestone-store/src/store/objects.rs"), "pub enum Definition"));
    check_documented(&kinds, "docs/format/commits.md", 9);
}

#[test]
fn numbers_in_documents_are_those_of_the_code() {
    let (limits, zones) = ("crates/freestone-store/src/limits.rs", "crates/freestone-store/src/segment/zones.rs");
    for (file, name, document, sentence) in [
        (limits, "ZONE_ROWS", "docs/format/segments.md", "a multiple of 64 ({} now)"),
        (limits, "ZONE_ROWS", "docs/sql.md", "runs of {} rows looked at"),
        (zones, "BOUND_BYTES", "docs/format/segments.md", "at most {} bytes."),
        (zones, "BOUND_BYTES", "docs/sql.md", "bounds of at most {} bytes"),
        (limits, "HOT_PAGE_ROWS", "docs/format/commits.md", "at most {}. The columns"),
    ] {
        let expected = sentence.replace("{}", &constant(&read(file), name));
        assert!(read(document).contains(&expected), "{document} does not say `{expected}`, as {name} in {file} does");
    }
}

#[test]
fn every_option_and_function_is_documented() {
    let design = read("crates/freestone-store/src/design.rs");
    check_documented(&quoted(&item(&design, "pub const OPTIONS")), "docs/sql.md", 10);
    check_documented(&quoted(&item(&design, "const PRESETS")), "docs/sql.md", 5);
    check_documented(&quoted(&item(&design, "const ENCODINGS")), "docs/sql.md", 11);
    let counters = item(&read("crates/freestone-store/src/scan/metrics.rs"), "counters! {");
    let counters = counters.lines().filter_map(|line| line.trim().strip_suffix(',')).filter(|name| !name.contains(' '));
    check_documented(&counters.map(str::to_owned).collect::<Vec<_>>(), "docs/sql.md", 8);
    let functions = quoted(&item(&read("crates/freestone/src/provider/metadata.rs"), "const FUNCTIONS"));
    let names = functions.into_iter().map(|name| name.trim_end_matches("()").to_owned());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("freestone_")).collect();
    names.dedup();
    check_prefixes(&names, "docs/sql.md", 7);
}

/// Checks that each name is in the document as `name`.
fn check_documented(names: &[String], document: &str, least: usize) {
    let text = read(document);
    assert!(names.len() >= least, "only {names:?} were found for {document}");
    for name in names {
        assert!(text.contains(&format!("`{name}`")), "{document} does not have `{name}`");
    }
}

/// Checks that each name begins a `name(…)` in the document.
fn check_prefixes(names: &[String], document: &str, least: usize) {
    let text = read(document);
    assert!(names.len() >= least, "only {names:?} were found for {document}");
    for name in names {
        assert!(text.contains(&format!("`{name}(")), "{document} does not have `{name}(…)`");
    }
}

/// What can be read at one sitting.
const ARCHITECTURE_BYTES_MAX: usize = 15_000;

#[test]
fn the_architecture_is_short_and_names_what_there_is() {
    let text = read("ARCHITECTURE.md");
    assert!(text.len() <= ARCHITECTURE_BYTES_MAX, "ARCHITECTURE.md has {} bytes: shorten it", text.len());
    let words = words_of_sources();
    let (mut folder, mut paths) = (String::new(), 0);
    for (line, span) in code_spans(&text) {
        // Within a section about a crate, and in a row of a table about it, paths begin in its sources.
        let is_crate = root().join(format!("crates/{span}/src")).is_dir();
        if is_crate && (line.starts_with('#') || line.starts_with(&format!("| `{span}`"))) {
            folder = format!("crates/{span}/src");
        } else if line.starts_with('#') {
            folder.clear();
        }
        let is_path = span.contains('/') || [".rs", ".md", ".py"].iter().any(|end| span.ends_with(end));
        let is_name = span.split("::").all(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'));
        if is_path {
            let found = [&folder, ""].iter().any(|folder| root().join(folder).join(&span).exists());
            assert!(found, "ARCHITECTURE.md: there is no {span}, neither in the root nor in `{folder}`: {line}");
            paths += 1;
        } else if is_name {
            let missing = span.split("::").find(|name| !words.contains(*name));
            assert_eq!(missing, None, "ARCHITECTURE.md: no source has the name: {line}");
        }
    }
    assert!(paths >= 50, "only {paths} paths were found");
    let (crates, all) = (folders(&root().join("crates")), tracked());
    let roots = all.iter().filter_map(|file| Some(file.split_once('/')?.0)).filter(|name| !name.starts_with('.'));
    let named = crates.into_iter().map(|name| format!("`{name}`")).chain(roots.map(|name| format!("`{name}/")));
    let unnamed = named.into_iter().find(|name| !text.contains(name.as_str()));
    assert_eq!(unnamed, None, "ARCHITECTURE.md has no line for this crate or folder");
}

/// The texts between backticks outside of blocks, with their lines; headings are among them.
fn code_spans(text: &str) -> Vec<(&str, String)> {
    let (mut spans, mut in_block) = (vec![], false);
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let heading = line.strip_prefix("### ").map(str::to_owned);
            spans.extend(heading.or_else(|| line.starts_with('#').then(String::new)).map(|span| (line, span)));
            spans.extend(line.split('`').skip(1).step_by(2).map(|span| (line, span.to_owned())));
        }
    }
    spans
}

/// All words in the Rust sources of the crates.
fn words_of_sources() -> HashSet<String> {
    let mut words = HashSet::new();
    for file in tracked().into_iter().filter(|file| file.starts_with("crates/") && file.ends_with(".rs")) {
        let Ok(text) = fs::read_to_string(root().join(file)) else { continue };
        words.extend(text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned));
    }
    words
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut links = 0;
    for file in tracked().into_iter().filter(|file| file.ends_with(".md")) {
        let text = read(&file);
        let folder = Path::new(&file).parent().expect("a file is in a folder").to_owned();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") || target.contains(' ') {
                continue;
            }
            links += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { PathBuf::from(&file) } else { folder.join(path) };
            assert!(root().join(&path).exists(), "{file}: the link to {target} leads nowhere");
            let headings =
                || read(&path.display().to_string()).lines().any(|line| anchor_of(line) == Some(anchor.into()));
            assert!(anchor.is_empty() || headings(), "{file}: {} has no heading #{anchor}", path.display());
        }
    }
    assert!(links >= 10, "only {links} links were found");
}

/// The anchor that code hosts make for a heading.
fn anchor_of(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
}

#[test]
fn the_tree_names_no_machine_and_holds_no_notes_to_self() {
    // In two parts each, so that this file does not violate the rule.
    let paths = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];
    let hosts = ["crates.io-in", "static.cra", "pypi.o", "pythonhos", "artifac"];
    let hosts = hosts.iter().zip(["dex", "tes.io", "rg", "ted.org", "tory"]).map(|(a, b)| format!("{a}{b}"));
    let hosts: Vec<String> = hosts.collect();
    let notes = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
    ];
    let files = tracked();
    assert!(files.len() > 100, "only {} files were found", files.len());
    let mut wrong = vec![];
    for file in &files {
        // Binary files, and files that the build removed meanwhile.
        let Ok(text) = fs::read_to_string(root().join(file)) else { continue };
        for (number, line) in text.lines().enumerate() {
            let path = paths.iter().find(|path| starts_path(line, path)).map(|p| (*p).to_owned());
            let host = hosts.iter().find(|host| line.contains(host.as_str())).filter(|_| file != "Cargo.lock").cloned();
            let note = notes.iter().find(|note| has_word(line, note)).map(|n| (*n).to_owned());
            wrong.extend(path.or(host).or(note).map(|word| format!("{file}:{}: {word}", number + 1)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_tree_holds_no_database_but_fixtures() {
    let is_log = |name: &str| name == "CURRENT" || name.starts_with("manifest-") && name.ends_with(".log");
    let left = tracked().into_iter().find(|file| {
        !file.contains("/tests/fixtures/") && is_log(file.rsplit_once('/').map_or(file.as_str(), |(_, name)| name))
    });
    assert_eq!(left, None, "a program or test has made a database here: it should use a temporary folder");
}

/// Whether the line contains an absolute path that begins with `path`.
fn starts_path(line: &str, path: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | ')' | '}');
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(inside))
}

/// Whether the line contains the word, and not only as part of another word.
fn has_word(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(inside) && !line[at + word.len()..].starts_with(inside))
}

fn root() -> PathBuf {
    PathBuf::from("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text of the Markdown files in a folder.
fn documents(folder: &str) -> String {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let paths = entries.map(|entry| entry.expect("the folder can be listed").path());
    let texts = paths.filter(|path| path.extension().is_some_and(|e| e == "md"));
    texts.map(|path| fs::read_to_string(&path).expect("a document can be read")).collect()
}

fn folders(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("the folder is there");
    let entries = entries.map(|entry| entry.expect("the folder can be listed"));
    let folders = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
    folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Files under version control, or about to be; without git, all files.
fn tracked() -> Vec<String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard"];
    match Command::new("git").args(arguments).current_dir(root()).output() {
        Ok(output) if output.status.success() => {
            let files = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>();
            files.into_iter().filter(|file| root().join(file).is_file()).collect()
        }
        _ => {
            let mut files = vec![];
            walk(&root(), "", &mut files);
            files
        }
    }
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("the folder can be listed") {
        let entry = entry.expect("the folder can be listed");
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let skipped = [".git", "target", ".venv", "__pycache__"].iter().any(|skip| entry.file_name() == *skip);
        match entry.path().is_dir() {
            true if skipped => {}
            true => walk(&entry.path(), &format!("{name}/"), files),
            false => files.push(name),
        }
    }
}

/// The names in `[dependencies]` of a manifest, for any target. Tests may have any dependencies.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = vec![];
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.trim_end_matches(']').ends_with("dependencies") && !line.contains("dev-dependencies");
        } else if inside {
            let name: String = line.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
            names.extend((!name.is_empty()).then_some(name));
        }
    }
    names
}

/// File, line number and text of the code below `src` of a crate, without comments and tests.
fn product_code(crate_name: &str) -> Vec<(String, usize, String)> {
    let mut files = vec![];
    walk(&root().join("crates").join(crate_name).join("src"), &format!("crates/{crate_name}/src/"), &mut files);
    let files = files.into_iter().filter(|file| file.ends_with(".rs") && !file.ends_with("/tests.rs"));
    let mut code = vec![];
    for file in files {
        let text = read(&file);
        let lines: Vec<&str> = text.lines().collect();
        // Test modules are at the end of a file.
        let tests =
            lines.windows(2).position(|w| w[0] == "#[cfg(test)]" && w[1].starts_with("mod ") && w[1].ends_with('{'));
        for (at, line) in lines[..tests.unwrap_or(lines.len())].iter().enumerate() {
            let line = line.trim();
            if !line.starts_with("//") && !line.is_empty() {
                code.push((file.clone(), at + 1, line.to_owned()));
            }
        }
    }
    code
}

/// The text of an item, from its first line to the first unindented line that ends it.
fn item(text: &str, start: &str) -> String {
    let from = text.find(&format!("\n{start}")).unwrap_or_else(|| panic!("`{start}` is not in the source any more"));
    let lines = text[from + 1..].lines();
    let mut taken = vec![];
    for line in lines {
        taken.push(line);
        if line.starts_with('}') || line.starts_with(']') || line.ends_with(';') {
            break;
        }
    }
    taken.join("\n")
}

/// The names and ids of the variants of an enum.
fn variants(text: &str, name: &str) -> Vec<(String, u32)> {
    let body = item(text, &format!("pub enum {name} "));
    let variant = |line: &str| {
        let (name, id) = line.trim().strip_suffix(',')?.split_once(" = ")?;
        Some((name.to_owned(), id.parse().ok()?))
    };
    body.lines().filter_map(variant).collect()
}

fn constant(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.contains(&format!("const {name}:")));
    let value = line.and_then(|line| line.split_once(" = ")).map(|(_, value)| value.trim_end_matches(';'));
    value.unwrap_or_else(|| panic!("{name} is not in the source any more")).to_owned()
}

/// The strings in double quotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The names of an enum's variants as they are in JSON.
fn names_of_variants(code: &str) -> Vec<String> {
    let names = code.lines().filter_map(|line| {
        let word: String = line.strip_prefix("    ")?.chars().take_while(char::is_ascii_alphanumeric).collect();
        word.starts_with(|c: char| c.is_ascii_uppercase()).then(|| snake_case(&word))
    });
    names.collect()
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[test]
fn the_helpers_read_sources_right() {
    let manifest = "[dependencies]\na.workspace = true\n[target.'cfg(x)'.dependencies]\nb-c = \"1\"\n[dev-dependencies]\nd = \"1\"";
    assert_eq!(dependencies(manifest), ["a", "b-c"]);
    let source =
        "\npub enum Kind {\n    /// One.\n    Int = 1,\n    F64 = 3,\n}\nenum Other { X = 9, }\nconst N: u8 = 4;\n";
    assert_eq!(variants(source, "Kind"), [("Int".to_owned(), 1), ("F64".to_owned(), 3)]);
    assert_eq!(constant(source, "N"), "4");
    assert_eq!(snake_case("SetDeleted"), "set_deleted");
    assert_eq!(anchor_of("## What is assumed, of 1 `x`").as_deref(), Some("what-is-assumed-of-1-x"));
    let (path, note) = (concat!("/ho", "me/"), concat!("TO", "DO"));
    assert!(starts_path(&format!("in {path}x"), path) && !starts_path(&format!("src{path}x"), path));
    assert!(has_word(&format!("// {note}: x"), note) && !has_word(&format!("{note}S"), note));
}
