//! Containers of an OCI runtime (runc or crun): namespaces of their own for processes, mounts, names and messages, a
//! control group, and a root folder with nothing but the program and the system's libraries. The network is the
//! machine's, as with `docker run --network host`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::child::{Place, Process};
use super::{Slot, cgroup};
use crate::error::{LabError, Result};

const RUNTIMES: [&str; 2] = ["runc", "crun"];
/// Folders of the system with libraries, which containers see for reading.
const SYSTEM: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];
const FREESTONE: &str = "/lab/freestone";
const LAB: &str = "/lab/freestone-lab";
/// Where a container sees its tenant's database.
pub const DATABASE: &str = "/lab/database";

/// A runtime that works here.
#[derive(Debug, Clone)]
pub struct Runtime {
    program: &'static str,
    pub version: String,
    /// The folder of bundles.
    folder: PathBuf,
    freestone: PathBuf,
    lab: PathBuf,
}

/// A running container, which is removed with this value.
pub struct Container {
    pub process: Option<Process>,
    id: String,
    runtime: &'static str,
    bundle: PathBuf,
}

impl Runtime {
    /// The first runtime that runs a container here.
    ///
    /// # Errors
    /// The reason why there is none, as text.
    pub fn find(folder: &Path, freestone: &Path, lab: &Path) -> Result<Runtime, String> {
        let mut reasons = vec![];
        for program in RUNTIMES {
            let Ok(output) = Command::new(program).arg("--version").output() else { continue };
            let text = String::from_utf8_lossy(&output.stdout);
            let version = text.lines().next().unwrap_or(program).to_owned();
            let absolute = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            let runtime = Runtime {
                program,
                version,
                folder: absolute(folder),
                freestone: absolute(freestone),
                lab: absolute(lab),
            };
            runtime.remove_stale();
            let slot = Slot::whole(super::super::child::allowed_cpus(), 1 << 30);
            let tried = runtime.start("a trial container", &slot, None, &[FREESTONE, "--version"]);
            let finished = tried.and_then(|mut container| match &mut container.process {
                Some(process) => process.finish(Duration::from_secs(20)),
                None => Ok(String::new()),
            });
            match finished {
                Ok(_) => return Ok(runtime),
                Err(error) => reasons.push(format!("{program}: {error}")),
            }
        }
        if reasons.is_empty() {
            return Err("neither runc nor crun is installed (apt-get install runc)".into());
        }
        Err(reasons.join("; "))
    }

    /// Removes containers of runs that were killed.
    fn remove_stale(&self) {
        let Ok(output) = Command::new(self.program).args(["list", "-q"]).output() else { return };
        for id in String::from_utf8_lossy(&output.stdout).lines() {
            if cgroup::owner(id).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                remove(self.program, id);
            }
        }
    }

    /// Starts a container that runs a program of [`FREESTONE`] or [`LAB`], and that ends with its standard input.
    ///
    /// # Errors
    /// The runtime cannot be started.
    pub fn start(&self, name: &str, slot: &Slot, database: Option<&Path>, arguments: &[&str]) -> Result<Container> {
        let id = cgroup::unique_name();
        let bundle = self.folder.join(&id);
        let lay = || -> std::io::Result<()> {
            let root = bundle.join("rootfs");
            for folder in ["proc", "dev", "sys", "tmp", "lab/database"].iter().chain(&SYSTEM.map(|at| &at[1..])) {
                fs::create_dir_all(root.join(folder))?;
            }
            for file in [FREESTONE, LAB] {
                fs::write(root.join(&file[1..]), "")?;
            }
            let config = self.config(&id, slot, database, arguments);
            fs::write(bundle.join("config.json"), serde_json::to_vec_pretty(&config)?)
        };
        lay().map_err(LabError::file(&bundle))?;
        let mut command = Command::new(self.program);
        command.arg("run").arg("--bundle").arg(&bundle).arg(&id);
        let mut container = Container { process: None, id, runtime: self.program, bundle };
        container.process = Some(Process::start(name, command, Place::default())?);
        Ok(container)
    }

    fn config(&self, id: &str, slot: &Slot, database: Option<&Path>, arguments: &[&str]) -> Value {
        let bind = |from: &Path, to: &str| json!({"destination": to, "type": "bind", "source": from, "options": ["rbind", "ro", "nosuid", "nodev"]});
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc"}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}),
            json!({"destination": "/sys", "type": "bind", "source": "/sys", "options": ["rbind", "ro"]}),
            json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}),
            bind(&self.freestone, FREESTONE),
            bind(&self.lab, LAB),
        ];
        mounts.extend(SYSTEM.iter().map(Path::new).filter(|path| path.exists()).map(|path| {
            bind(&fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()), &path.display().to_string())
        }));
        mounts.extend(database.map(|folder| {
            let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
            bind(&folder, DATABASE)
        }));
        let cpus = slot.cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let mut cpu = json!({"cpus": cpus});
        if let Some(cores) = slot.quota {
            cpu["period"] = json!(100_000);
            cpu["quota"] = json!((cores * 1e5) as i64);
        }
        // The wrapper ends the container when its input ends, so that nothing survives the laboratory.
        let wrapped: Vec<&str> = [LAB, "keep", "--"].into_iter().chain(arguments.iter().copied()).collect();
        let environment = ["PATH=/lab", "HOME=/tmp", "FREESTONE_PROFILE=/tmp/profile.json"];
        json!({
            "ociVersion": "1.0.0",
            "process": {
                "terminal": false, "user": {"uid": 0, "gid": 0}, "args": wrapped, "env": environment, "cwd": "/tmp",
            },
            "root": {"path": "rootfs", "readonly": true},
            "hostname": "tenant",
            "mounts": mounts,
            "linux": {
                "namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}],
                "resources": {"memory": {"limit": slot.memory_bytes}, "cpu": cpu},
                "cgroupsPath": format!("/{id}"),
            },
        })
    }
}

fn remove(runtime: &str, id: &str) {
    let quiet = |command: &mut Command| {
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    };
    quiet(Command::new(runtime).args(["delete", "--force", id]));
}

impl Drop for Container {
    fn drop(&mut self) {
        self.process = None;
        remove(self.runtime, &self.id);
        // A failed run reports its reason. That a folder remains is no second failure.
        let _ = fs::remove_dir_all(&self.bundle);
    }
}
