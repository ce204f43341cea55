//! The profile of this machine: where it is stored, how it is made, and its representation as rows.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch};
use freestone_advisor::{AdvisorError, CalibrateOptions, Effort, Profile};

use crate::error::{Error, ErrorKind, Result};
use crate::provider::metadata::{batch, texts};

/// Options of calibration.
#[derive(Debug, Clone, Default)]
pub struct Calibration {
    /// A rough calibration of one or two seconds instead of most of a minute.
    pub quick: bool,
    /// A folder on the disk to measure; `None`: the disk is not measured.
    pub folder: Option<PathBuf>,
}

/// Measures this machine and stores the profile. `progress` is called with the current measurement and the completed
/// share.
///
/// # Errors
///
/// A measurement fails, or the profile cannot be stored.
pub fn calibrate(calibration: &Calibration, progress: &mut dyn FnMut(&str, f64)) -> Result<Profile> {
    let path = profile_path()?;
    let effort = if calibration.quick { Effort::Quick } else { Effort::Normal };
    let options = CalibrateOptions { effort, folder: calibration.folder.clone(), ..CalibrateOptions::default() };
    let profile = freestone_advisor::calibrate(&options, progress)?;
    if let Some(folder) = path.parent() {
        let failed = |error| Error::new(ErrorKind::Io, format!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    profile.save(&path)?;
    Ok(profile)
}

/// The file of the profile: `FREESTONE_PROFILE`, or `freestone/profile.json` in the user's state folder.
///
/// # Errors
///
/// There is no state folder.
pub fn profile_path() -> Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = || named("XDG_STATE_HOME").or_else(|| named("HOME").map(|home| home.join(".local/state")));
    named("FREESTONE_PROFILE").or_else(|| state().map(|state| state.join("freestone/profile.json"))).ok_or_else(|| {
        Error::new(ErrorKind::Io, "there is no place for the machine's profile: HOME is not set")
            .with_hint("set FREESTONE_PROFILE to a file's path")
    })
}

/// The stored profile. If there is none, or one of an older version, constants of a typical machine, which are marked
/// as assumed.
///
/// # Errors
///
/// The file cannot be read.
pub(crate) fn profile() -> Result<Profile> {
    match profile_path() {
        Ok(path) if path.exists() => match Profile::load(&path) {
            Err(AdvisorError::Outdated { .. }) => Ok(Profile::assumed()),
            found => Ok(found?),
        },
        _ => Ok(Profile::assumed()),
    }
}

/// `freestone_profile()`: one row per figure.
///
/// # Errors
///
/// An array cannot be built.
pub(crate) fn profile_batch(profile: &Profile) -> Result<RecordBatch> {
    let rows = profile.rows();
    let floats = |of: fn(&freestone_advisor::profile::Row) -> f64| {
        Arc::new(rows.iter().map(of).collect::<Float64Array>()) as ArrayRef
    };
    batch(vec![
        ("topic", false, texts(rows.iter().map(|row| Some(row.topic.to_owned())))),
        ("name", false, texts(rows.iter().map(|row| Some(row.name.clone())))),
        ("value", false, floats(|row| row.value)),
        ("low", false, floats(|row| row.low)),
        ("high", false, floats(|row| row.high)),
        ("unit", false, texts(rows.iter().map(|row| Some(row.unit.to_owned())))),
        ("reported", true, texts(rows.iter().map(|row| row.reported.clone()))),
    ])
}
