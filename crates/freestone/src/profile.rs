//! The profile of this machine: where it is stored, and how it is made.

use std::path::PathBuf;

use freestone_advisor::{AdvisorError, CalibrateOptions, Effort, Profile};

use crate::error::{Error, ErrorKind, Result};

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
