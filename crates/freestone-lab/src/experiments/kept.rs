//! Kept runs: results of other versions or machines, which a report shows, named as such, where it has no measurement of its own.

use std::path::Path;

use super::EXPERIMENTS;
use crate::error::{LabError, Result};
use freestone_report::findings::{Findings, Part};

/// The runs, with those of a folder in the place of what is missing or was not measured, in the order of the experiments.
///
/// # Errors
/// There is no such folder, or a file of it is no result.
pub(super) fn fill(mut runs: Vec<Findings>, folder: &Path) -> Result<Vec<Findings>> {
    if !folder.is_dir() {
        let text =
            format!("--kept {}: there is no such folder; it has files NAME.json of earlier runs", folder.display());
        return Err(LabError::Usage(text));
    }
    for experiment in &EXPERIMENTS {
        let own = runs.iter().position(|run| run.name == experiment.name);
        // What was not measured took no time.
        if own.is_some_and(|at| runs[at].seconds > 0.0) {
            continue;
        }
        let path = folder.join(format!("{}.json", experiment.name));
        let json = match std::fs::read(&path) {
            Ok(json) => json,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(LabError::file(&path)(error)),
        };
        let found = serde_json::from_slice(&json).map_err(|source| LabError::Result { path, source })?;
        match own {
            Some(at) => runs[at] = marked(found),
            None => runs.push(marked(found)),
        }
    }
    runs.sort_by_key(|run| EXPERIMENTS.iter().position(|experiment| experiment.name == run.name));
    Ok(runs)
}

/// A kept run says so in its title, its first section, and each of its verdicts.
fn marked(mut run: Findings) -> Findings {
    run.title = format!("{} (kept run)", run.title);
    let text = format!(
        "Kept run of {} on {}, {}: this report has no measurement of its own.",
        run.host.versions, run.host.hardware, run.host.date
    );
    run.parts.insert(0, Part::section("", text));
    for part in &mut run.parts {
        if let Part::Checks(checks) = part {
            checks.checks.iter_mut().for_each(|check| check.detail = format!("kept run: {}", check.detail));
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
        let missing = report(&own, "lab 2", Some(Path::new("/no/such/folder"))).expect_err("there is no such folder");
        assert!(missing.to_string().contains("--kept /no/such/folder"), "{missing}");
        std::fs::write(kept.join("codecs.json"), "{ cut off").expect("the folder is writable");
        assert!(matches!(report(&own, "lab 2", Some(&kept)), Err(LabError::Result { .. })));
    }
}
