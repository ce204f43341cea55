//! What is varied: levels of isolation, neighbours, tenants, users, and the length of each measurement.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};

/// How tenants are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// All tenants in one process. Each has a schema of its own in one database.
    Shared,
    /// A server process for each tenant, on the cores of its slot.
    Process,
    /// The same in a control group with a CPU set, a CPU quota and a memory limit.
    Cgroup,
    /// The same in a container of an OCI runtime.
    Container,
    /// The same in a virtual machine of QEMU with hardware support.
    Vm,
}

/// What runs next to a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Burn {
    /// Arithmetic in registers: no memory at all.
    Arithmetic,
    /// Copies of a region that is larger than all caches.
    Streams,
    /// A chain of loads from random places of such a region.
    Loads,
    /// New pages from the system, each written once and given back.
    Pages,
}

/// The options of the three experiments. A missing one has the experiment's default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TenantOptions {
    /// The levels to measure; empty means all that this machine has.
    pub isolation: Vec<Isolation>,
    /// The greatest number of tenants.
    pub tenants: Option<usize>,
    /// The greatest number of users of one tenant.
    pub users: Option<usize>,
    /// The seconds of one measurement, without its warm-up.
    pub seconds: Option<f64>,
    /// The neighbours.
    pub burn: Vec<Burn>,
    /// How often each point is measured.
    pub repetitions: Option<usize>,
    /// The short variant: a small scale, one repetition, few points.
    pub short: bool,
    /// The program `freestone`; the one next to this program by default.
    pub program: Option<PathBuf>,
}

impl Isolation {
    pub const ALL: [Isolation; 5] =
        [Isolation::Shared, Isolation::Process, Isolation::Cgroup, Isolation::Container, Isolation::Vm];

    pub const fn name(self) -> &'static str {
        match self {
            Isolation::Shared => "shared",
            Isolation::Process => "process",
            Isolation::Cgroup => "cgroup",
            Isolation::Container => "container",
            Isolation::Vm => "vm",
        }
    }
}

impl Burn {
    pub const ALL: [Burn; 4] = [Burn::Arithmetic, Burn::Streams, Burn::Loads, Burn::Pages];

    pub const fn name(self) -> &'static str {
        match self {
            Burn::Arithmetic => "arithmetic",
            Burn::Streams => "streams",
            Burn::Loads => "loads",
            Burn::Pages => "pages",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl fmt::Display for Burn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Reads a level by its name.
///
/// # Errors
/// There is no such level.
pub fn parse_isolation(text: &str) -> Result<Isolation, String> {
    let found = Isolation::ALL.into_iter().find(|level| level.name() == text);
    found.ok_or_else(|| "a level of isolation is shared, process, cgroup, container or vm".into())
}

/// Reads a neighbour by its name.
///
/// # Errors
/// There is no such neighbour.
pub fn parse_burn(text: &str) -> Result<Burn, String> {
    let found = Burn::ALL.into_iter().find(|burn| burn.name() == text);
    found.ok_or_else(|| "a neighbour is arithmetic, streams, loads or pages".into())
}

impl TenantOptions {
    /// # Errors
    /// A number makes no sense.
    pub fn validate(&self) -> Result<()> {
        let wrong = |text: &str| Err(LabError::Usage(text.into()));
        if self.tenants.is_some_and(|count| !(1..=64).contains(&count)) {
            return wrong("--tenants is a number from 1 to 64");
        }
        if self.users.is_some_and(|count| !(1..=256).contains(&count)) {
            return wrong("--users is a number from 1 to 256");
        }
        if self.seconds.is_some_and(|seconds| !(0.1..=3600.0).contains(&seconds)) {
            return wrong("--seconds is a number from 0.1 to 3600");
        }
        if self.repetitions.is_some_and(|count| !(1..=100).contains(&count)) {
            return wrong("--repetitions is a number from 1 to 100");
        }
        Ok(())
    }

    /// The options as on the command line, except the program, which is not a property of the figures.
    pub fn arguments(&self) -> String {
        let mut text = String::new();
        let list = |names: Vec<&str>| names.join(",");
        if !self.isolation.is_empty() {
            text += &format!(" --isolation {}", list(self.isolation.iter().map(|level| level.name()).collect()));
        }
        for (name, value) in [("tenants", self.tenants), ("users", self.users), ("repetitions", self.repetitions)] {
            text += &value.map_or(String::new(), |value| format!(" --{name} {value}"));
        }
        text += &self.seconds.map_or(String::new(), |seconds| format!(" --seconds {seconds}"));
        if !self.burn.is_empty() {
            text += &format!(" --burn {}", list(self.burn.iter().map(|burn| burn.name()).collect()));
        }
        text + if self.short { " --short" } else { "" }
    }

    pub fn levels(&self) -> Vec<Isolation> {
        let mut levels = if self.isolation.is_empty() { Isolation::ALL.to_vec() } else { self.isolation.clone() };
        levels.sort_unstable();
        levels.dedup();
        levels
    }

    pub fn neighbours(&self, default: &[Burn]) -> Vec<Burn> {
        let mut burn = if self.burn.is_empty() { default.to_vec() } else { self.burn.clone() };
        burn.sort_unstable();
        burn.dedup();
        burn
    }

    pub fn seconds(&self, default: f64) -> f64 {
        self.seconds.unwrap_or(if self.short { 0.6 } else { default })
    }

    pub fn repetitions(&self) -> usize {
        self.repetitions.unwrap_or(if self.short { 1 } else { 3 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for level in Isolation::ALL {
            assert_eq!(parse_isolation(level.name()), Ok(level));
        }
        for burn in Burn::ALL {
            assert_eq!(parse_burn(burn.name()), Ok(burn));
        }
        assert!(parse_isolation("docker").is_err() && parse_burn("").is_err());
    }

    #[test]
    fn senseless_numbers_are_refused() {
        let base = TenantOptions::default;
        let wrong = [
            TenantOptions { tenants: Some(0), ..base() },
            TenantOptions { users: Some(0), ..base() },
            TenantOptions { seconds: Some(f64::NAN), ..base() },
            TenantOptions { seconds: Some(0.0), ..base() },
            TenantOptions { repetitions: Some(0), ..base() },
        ];
        assert!(wrong.iter().all(|options| options.validate().is_err()));
        assert!(base().validate().is_ok());
    }

    #[test]
    fn the_command_line_repeats_the_options() {
        let options = TenantOptions {
            isolation: vec![Isolation::Process, Isolation::Vm],
            users: Some(4),
            seconds: Some(0.5),
            burn: vec![Burn::Streams],
            short: true,
            ..TenantOptions::default()
        };
        assert_eq!(options.arguments(), " --isolation process,vm --users 4 --seconds 0.5 --burn streams --short");
        assert_eq!(TenantOptions::default().arguments(), "");
        assert_eq!((options.levels().len(), TenantOptions::default().levels().len()), (2, 5));
    }
}
