//! The calibrator in a control group with a part of the machine's memory.

use freestone_advisor::profile::Profile;

use super::bench::program;
use super::child::allowed_cpus;
use super::levels::{Levels, Slot};
use super::options::Isolation;
use super::probe::{Probe, json};
use crate::error::LabError;
use crate::experiments::RunOptions;

/// The profile that `freestone calibrate` finds in a control group with so much memory.
///
/// # Errors
/// The reason why there is none, as text.
pub fn calibrate(options: &RunOptions, memory_bytes: u64) -> Result<Profile, String> {
    let text = |error: LabError| error.to_string();
    let program = program(&options.tenants).map_err(text)?;
    let levels = Levels::find(&[Isolation::Cgroup], &program, &options.output);
    if let Some(reason) = levels.missing(Isolation::Cgroup) {
        return Err(reason);
    }
    let slot = Slot::whole(allowed_cpus(), memory_bytes);
    let output = levels.probe(Isolation::Cgroup, &slot, &Probe::Calibrator { quick: false }).map_err(text)?;
    json(&output, "the calibrator").map_err(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_a_reason() {
        let mut options = RunOptions::default();
        options.tenants.program = Some("/no/such/program".into());
        let reason = calibrate(&options, 1 << 30).expect_err("there is no program");
        assert!(reason.contains("/no/such/program") && reason.contains("--program"), "{reason}");
    }
}
