//! The levels of isolation: which of them this machine has, and servers of tenants at each.

pub mod cgroup;
pub mod container;
pub mod guest;
pub mod keep;
pub mod machine;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::child::{Place, Process, Usage};
use super::databases::Database;
use super::options::Isolation;
use crate::error::{LabError, Result};
use cgroup::{Group, Hierarchy};
use container::{Container, Runtime};
use machine::{Kit, Machine};

/// The time in which a server must accept connections: it first reads its tables into memory.
const PATIENCE: Duration = Duration::from_secs(300);

/// What one tenant may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// Its cores.
    pub cpus: Vec<usize>,
    /// The share of one core, if it has less than one. Levels without quotas do not enforce it.
    pub quota: Option<f64>,
    pub memory_bytes: u64,
}

impl Slot {
    /// Whole cores.
    pub fn whole(cpus: Vec<usize>, memory_bytes: u64) -> Slot {
        Slot { cpus, quota: None, memory_bytes }
    }

    /// The engine's threads for queries.
    pub fn threads(&self) -> usize {
        self.cpus.len().max(1)
    }
}

/// The tools of the levels, found once.
pub struct Levels {
    program: PathBuf,
    hierarchy: Result<Hierarchy, String>,
    runtime: Result<Runtime, String>,
    kit: Result<Kit, String>,
}

/// One started server.
pub struct Running {
    held: Held,
    pub address: String,
}

/// What keeps a server alive, and ends it when it is dropped.
enum Held {
    Process(Process),
    // Declared in the order of dropping: a group must be empty before it can be removed.
    Grouped(Process, #[allow(dead_code)] Group),
    Container(Container),
    Machine(Machine),
}

impl Levels {
    /// Looks for the tools of `asked`. `folder` takes their files.
    pub fn find(asked: &[Isolation], program: &Path, folder: &Path) -> Levels {
        let has = |level: Isolation| asked.contains(&level);
        let unasked = || "not asked for".to_owned();
        let lab = std::env::current_exe().map_err(|error| error.to_string());
        let hierarchy = if has(Isolation::Cgroup) { Hierarchy::find() } else { Err(unasked()) };
        let runtime = match &lab {
            Ok(lab) if has(Isolation::Container) => Runtime::find(&folder.join("containers"), program, lab),
            Err(error) => Err(error.clone()),
            _ => Err(unasked()),
        };
        let kit = match &lab {
            Ok(lab) if has(Isolation::Vm) => Kit::find(&folder.join("machines"), program, lab),
            Err(error) => Err(error.clone()),
            _ => Err(unasked()),
        };
        Levels { program: program.to_owned(), hierarchy, runtime, kit }
    }

    /// Why a level cannot be measured here.
    pub fn missing(&self, level: Isolation) -> Option<String> {
        match level {
            Isolation::Shared | Isolation::Process => None,
            Isolation::Cgroup => self.hierarchy.as_ref().err().cloned(),
            Isolation::Container => self.runtime.as_ref().err().cloned(),
            Isolation::Vm => self.kit.as_ref().err().cloned(),
        }
    }

    /// The means of a level, for the report.
    pub fn means(&self, level: Isolation) -> String {
        match level {
            Isolation::Shared => "one process for all tenants, each with a schema, pinned to all their cores".into(),
            Isolation::Process => "a process per tenant, pinned to its cores (CPU affinity)".into(),
            Isolation::Cgroup => match &self.hierarchy {
                Ok(found) => format!("{}: CPU set, CPU quota, memory limit", found.name()),
                Err(reason) => format!("not measured: {reason}"),
            },
            Isolation::Container => match &self.runtime {
                Ok(found) => format!("{}: namespaces, control group, the machine's network", found.version),
                Err(reason) => format!("not measured: {reason}"),
            },
            Isolation::Vm => match &self.kit {
                Ok(found) => format!("{}: KVM with hardware support, virtio, user-mode network", found.version),
                Err(reason) => format!("not measured: {reason}"),
            },
        }
    }

    /// Starts the server of a database at a level, and waits until it accepts connections.
    ///
    /// # Errors
    /// The server does not start, or ends.
    pub fn serve(&self, level: Isolation, database: &Database, slot: &Slot, name: &str) -> Result<Running> {
        let (held, address) = match level {
            Isolation::Shared | Isolation::Process => {
                let mut process = self.start(name, slot, database, vec![])?;
                let address = listening(&mut process)?;
                (Held::Process(process), address)
            }
            Isolation::Cgroup => {
                let hierarchy = self.hierarchy.as_ref().map_err(|reason| LabError::Usage(reason.clone()))?;
                let group =
                    Group::create(hierarchy, slot).map_err(|error| LabError::Broken(format!("{name}: {error}")))?;
                let mut process = self.start(name, slot, database, group.entries())?;
                let address = listening(&mut process)?;
                (Held::Grouped(process, group), address)
            }
            Isolation::Container => {
                let runtime = self.runtime.as_ref().map_err(|reason| LabError::Usage(reason.clone()))?;
                let arguments = serve_arguments(slot, container::DATABASE);
                let arguments: Vec<&str> =
                    std::iter::once("freestone").chain(arguments.iter().map(String::as_str)).collect();
                let mut container = runtime.start(name, slot, Some(&database.folder), &arguments)?;
                let process = container.process.as_mut();
                let address =
                    process.map_or_else(|| Err(LabError::Broken(format!("{name}: no process"))), listening)?;
                (Held::Container(container), address)
            }
            Isolation::Vm => {
                let kit = self.kit.as_ref().map_err(|reason| LabError::Usage(reason.clone()))?;
                let machine = kit.boot(name, slot, Some(&database.folder))?;
                let address = machine.address();
                (Held::Machine(machine), address)
            }
        };
        Ok(Running { held, address: format!("freestone://freestone@{address}?shared_memory=false&threads=1") })
    }

    fn start(&self, name: &str, slot: &Slot, database: &Database, groups: Vec<std::ffi::CString>) -> Result<Process> {
        let mut command = Command::new(&self.program);
        command.args(serve_arguments(slot, &database.folder.display().to_string()));
        Process::start(name, command, Place { cpus: slot.cpus.clone(), groups })
    }

    /// Runs a program of the laboratory at a level, on all cores, and returns what it prints.
    ///
    /// # Errors
    /// The program fails.
    pub fn probe(&self, level: Isolation, slot: &Slot, probe: &super::probe::Probe) -> Result<String> {
        let name = format!("{} at level {level}", probe.name());
        let patience = Duration::from_secs(900);
        match level {
            Isolation::Shared | Isolation::Process | Isolation::Cgroup => {
                let group = match (&self.hierarchy, level) {
                    (Ok(hierarchy), Isolation::Cgroup) => {
                        let group = Group::create(hierarchy, slot);
                        Some(group.map_err(|error| LabError::Broken(format!("{name}: {error}")))?)
                    }
                    _ => None,
                };
                let lab = std::env::current_exe().map_err(|error| LabError::Broken(format!("{name}: {error}")))?;
                let command = probe.command(&self.program, &lab);
                let groups = group.as_ref().map_or(vec![], Group::entries);
                let mut process = Process::start(&name, command, Place { cpus: slot.cpus.clone(), groups })?;
                process.finish(patience)
            }
            Isolation::Container => {
                let runtime = self.runtime.as_ref().map_err(|reason| LabError::Usage(reason.clone()))?;
                let arguments = probe.arguments();
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let mut container = runtime.start(&name, slot, None, &arguments)?;
                container.process.as_mut().map_or(Ok(String::new()), |process| process.finish(patience))
            }
            Isolation::Vm => {
                let kit = self.kit.as_ref().map_err(|reason| LabError::Usage(reason.clone()))?;
                kit.boot(&name, slot, None)?.run(&probe.arguments(), patience)
            }
        }
    }
}

/// The arguments of `freestone` for a server that this machine's users reach.
pub fn serve_arguments(slot: &Slot, database: &str) -> Vec<String> {
    let (threads, memory) = (slot.threads().to_string(), slot.memory_bytes.to_string());
    let fixed = ["serve", database, "--listen", "127.0.0.1:0", "--no-auth", "--read-only", "--shared-memory", "0"];
    let sized = ["--threads", &threads, "--memory-limit", &memory];
    fixed.into_iter().chain(sized).map(str::to_owned).collect()
}

fn listening(process: &mut Process) -> Result<String> {
    process.wait_for("listening: freestone://", PATIENCE)
}

impl Running {
    /// # Errors
    /// The server has ended.
    pub fn check(&mut self) -> Result<()> {
        match &mut self.held {
            Held::Process(process) | Held::Grouped(process, _) => process.check(),
            Held::Container(container) => container.process.as_mut().map_or(Ok(()), Process::check),
            Held::Machine(machine) => machine.check(),
        }
    }

    /// The time and memory of the server. Of a virtual machine, the time in its own kernel is in `kernel_of_guest`.
    pub fn usage(&self) -> (Usage, Option<f64>) {
        match &self.held {
            Held::Process(process) | Held::Grouped(process, _) => (process.usage(), None),
            Held::Container(container) => (container.process.as_ref().map_or(Usage::default(), Process::usage), None),
            Held::Machine(machine) => (machine.usage(), machine.kernel_seconds()),
        }
    }
}
