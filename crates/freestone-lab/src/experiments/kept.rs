//! Kept runs: results of other versions, machines or sizes, which a report shows, named as such: where it has no measurement of its
//! own, and next to its own if they were run by another command.

use std::path::{Path, PathBuf};

use super::EXPERIMENTS;
use crate::error::{LabError, Result};
use freestone_report::findings::{Check, Findings, Part};

/// How the details of a kept run's verdicts begin.
const MARK: &str = "kept run: ";
/// How its title ends.
const SUFFIX: &str = " (kept run)";

/// Whether a verdict is of a kept run.
pub(super) fn is_kept(check: &Check) -> bool {
    check.detail.starts_with(MARK)
}

/// The runs with those of a folder, in the order of the experiments. A kept run takes the place of what is missing or was not
/// measured; next to a measurement of this report it stands under the name of its file, if its command is another one.
///
/// # Errors
/// There is no such folder, a file `.json` of it is no result, or is one of an experiment that does not exist.
pub(super) fn fill(mut runs: Vec<Findings>, folder: &Path) -> Result<Vec<Findings>> {
    let mut added = vec![];
    for path in files(folder)? {
        let json = std::fs::read(&path).map_err(LabError::file(&path))?;
        let found: Findings =
            serde_json::from_slice(&json).map_err(|source| LabError::Result { path: path.clone(), source })?;
        let Some(place) = place(&found.name) else {
            let text =
                format!("{} is a result of {}, which is no experiment of this version", path.display(), found.name);
            return Err(LabError::Usage(text));
        };
        let own = runs.iter().position(|run| run.name == found.name);
        match own {
            // What was not measured took no time.
            Some(at) if runs[at].seconds <= 0.0 => runs[at] = marked(found),
            None => runs.push(marked(found)),
            Some(at) if runs[at].command != found.command => {
                let name = path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
                // Articles of a page have different names.
                let name = if name == found.name { format!("{name}-kept") } else { name };
                added.push((place, Findings { name, ..uncounted(marked(found)) }));
            }
            Some(_) => {}
        }
    }
    let own = runs.into_iter().map(|run| (place(&run.name).unwrap_or(EXPERIMENTS.len()), run));
    let mut all: Vec<(usize, Findings)> = own.chain(added).collect();
    all.sort_by_key(|(place, _)| *place);
    Ok(all.into_iter().map(|(_, run)| run).collect())
}

/// The place of an experiment in the report.
fn place(name: &str) -> Option<usize> {
    EXPERIMENTS.iter().position(|experiment| experiment.name == name)
}

/// The results of a folder, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        let text = format!("--kept {}: there is no such folder; it has files .json of earlier runs", folder.display());
        return Err(LabError::Usage(text));
    }
    let failed = LabError::file(folder);
    let entries = std::fs::read_dir(folder).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    let mut paths: Vec<PathBuf> = entries.map_err(failed)?.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    Ok(paths)
}

/// The title that a kept run had before it was marked.
pub(super) fn title_of(kept: &Findings) -> &str {
    kept.title.strip_suffix(SUFFIX).unwrap_or(&kept.title)
}

/// A run whose verdicts name the paper's place in their text: they are not counted as claims a second time.
fn uncounted(mut run: Findings) -> Findings {
    for part in &mut run.parts {
        let Part::Checks(checks) = part else { continue };
        for check in &mut checks.checks {
            let place = std::mem::take(&mut check.place);
            check.detail = if place.is_empty() { check.detail.clone() } else { format!("{} ({place})", check.detail) };
        }
    }
    run
}

/// A kept run says so in its title, its first section, and each of its verdicts.
fn marked(mut run: Findings) -> Findings {
    run.title = format!("{}{SUFFIX}", run.title);
    let text =
        format!("Kept run of {} on {}, {}: {}", run.host.versions, run.host.hardware, run.host.date, run.command);
    run.parts.insert(0, Part::section("", text));
    for part in &mut run.parts {
        if let Part::Checks(checks) = part {
            checks.checks.iter_mut().for_each(|check| check.detail = format!("{MARK}{}", check.detail));
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::super::{RunOptions, papers, report, run};
    use super::*;

    #[test]
    fn kept_runs_stand_where_nothing_was_measured() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
        let [kept, own] = folders.each_ref().map(|folder| folder.path().to_owned());
        let options = |output: &Path, versions: &str| RunOptions {
            rows: Some(20_000),
            output: output.to_owned(),
            versions: versions.to_owned(),
            ..RunOptions::default()
        };
        let mut earlier = run("holloway-size", &options(&kept, "lab 1"), &|_| {}).expect("it runs");
        assert!(report(&own, "lab 2", None).is_err(), "nothing was measured");
        let page = report(&own, "lab 2", Some(&kept)).expect("there is a kept run");
        let page = std::fs::read_to_string(page).expect("it was written");
        assert!(page.contains("Kept run of lab 1 on") && page.contains("kept run: "), "{page}");
        // A placeholder without a measurement gives way, and a measurement does not.
        earlier.host.versions = "lab 2".into();
        papers::write(&own, &Findings { seconds: 0.0, ..earlier.clone() }).expect("written");
        let page = report(&own, "lab 2", Some(&kept)).expect("there is a kept run");
        assert!(std::fs::read_to_string(page).expect("it was written").contains("Kept run of lab 1 on"));
        papers::write(&own, &earlier).expect("written");
        let page = report(&own, "lab 2", Some(&kept)).expect("there is an own run");
        assert!(!std::fs::read_to_string(page).expect("it was written").contains("Kept run"));
        // Next to it stands a run by another command, once, under the name of its file.
        let larger = RunOptions { rows: Some(30_000), ..options(&kept, "lab 1") };
        run("holloway-size", &larger, &|_| {}).expect("it runs");
        std::fs::rename(kept.join("holloway-size.json"), kept.join("holloway-size-30k.json")).expect("renamed");
        let page = report(&own, "lab 2", Some(&kept)).expect("there are both");
        let page = std::fs::read_to_string(page).expect("it was written");
        assert_eq!(
            (page.matches("id=\"holloway-size\"").count(), page.matches("id=\"holloway-size-30k\"").count()),
            (1, 1)
        );
        let of_paper = std::fs::read_to_string(own.join("holloway-2008.html")).expect("it was written");
        assert!(of_paper.contains("id=\"holloway-size-30k\""), "{of_paper}");
        assert!(of_paper.contains("What the size decides"), "{of_paper}");
        let missing = report(&own, "lab 2", Some(Path::new("/no/such/folder"))).expect_err("there is no such folder");
        assert!(missing.to_string().contains("--kept /no/such/folder"), "{missing}");
        std::fs::write(kept.join("codecs.json"), "{ cut off").expect("the folder is writable");
        assert!(matches!(report(&own, "lab 2", Some(&kept)), Err(LabError::Result { .. })));
        earlier.name = "holloway-sizes".into();
        papers::write(&kept, &earlier).expect("written");
        std::fs::remove_file(kept.join("codecs.json")).expect("it is there");
        let unknown = report(&own, "lab 2", Some(&kept)).expect_err("no such experiment");
        assert!(unknown.to_string().contains("holloway-sizes, which is no experiment"), "{unknown}");
    }

    #[test]
    fn results_of_the_repository_are_runs_of_experiments() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
        let runs = fill(vec![], &folder).expect("they are results");
        assert!(!runs.is_empty() && runs.iter().all(|run| run.seconds > 0.0 && run.checks().all(is_kept)));
    }
}
