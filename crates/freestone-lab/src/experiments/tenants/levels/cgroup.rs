//! Control groups, of version 1 or 2, with a CPU set, a CPU quota and a memory limit.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::Slot;

/// The start of the names of this program's groups.
const PREFIX: &str = "freestone-lab-";
/// Microseconds in which a quota holds.
const PERIOD_US: u64 = 100_000;
const CONTROLLERS: [&str; 3] = ["cpuset", "cpu", "memory"];

/// The folders under which groups are created.
#[derive(Debug, Clone, PartialEq)]
pub enum Hierarchy {
    /// One folder per controller, in the order of [`CONTROLLERS`].
    V1([PathBuf; 3]),
    V2(PathBuf),
}

/// A group, which is removed with this value. Its processes must have ended before.
#[derive(Debug)]
pub struct Group {
    folders: Vec<PathBuf>,
}

impl Hierarchy {
    /// The hierarchy of this process.
    ///
    /// # Errors
    /// The reason why there are no groups, as text.
    pub fn find() -> Result<Hierarchy, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let found = parse(&mounts, &own)?;
        remove_stale(&found);
        found.enable()?;
        let probe = Group::create(&found, &Slot::whole(vec![0], 64 << 20));
        probe.map(|_| found).map_err(|error| {
            format!("no permission to create control groups ({error}); run as root, or have a group delegated to you")
        })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Hierarchy::V1(_) => "control groups, version 1",
            Hierarchy::V2(_) => "control groups, version 2",
        }
    }

    fn roots(&self) -> Vec<&Path> {
        match self {
            Hierarchy::V1(folders) => folders.iter().map(PathBuf::as_path).collect(),
            Hierarchy::V2(folder) => vec![folder],
        }
    }

    /// Version 2 gives a group its controllers only if the parent lists them.
    fn enable(&self) -> Result<(), String> {
        let Hierarchy::V2(folder) = self else { return Ok(()) };
        let file = folder.join("cgroup.subtree_control");
        fs::write(&file, "+cpuset +cpu +memory").map_err(|error| {
            format!(
                "cannot enable cpuset, cpu and memory in {}: {error}; run as root in the root group",
                file.display()
            )
        })
    }
}

/// The hierarchy from `/proc/self/mountinfo` and `/proc/self/cgroup`.
fn parse(mounts: &str, own: &str) -> Result<Hierarchy, String> {
    // mountinfo: id parent major:minor root mount-point options … - type source super-options
    let mounted = |kind: &str, controller: Option<&str>| {
        mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split_whitespace().collect());
            let fits = *right.first()? == kind
                && controller.is_none_or(|name| right.last().is_some_and(|all| all.split(',').any(|o| o == name)));
            fits.then_some(())?;
            Some((PathBuf::from(left.get(4)?), left.get(3)?.to_string()))
        })
    };
    // cgroup: number:controllers:path
    let path = |controller: &str| {
        own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (names, path) = (fields.next()?, fields.next()?);
            (names.split(',').any(|name| name == controller)).then(|| path.to_owned())
        })
    };
    let place = |(mount, root): (PathBuf, String), path: &str| {
        let below = path.strip_prefix(root.as_str()).unwrap_or(path);
        mount.join(below.trim_start_matches('/'))
    };
    let first = CONTROLLERS.map(|name| Some(place(mounted("cgroup", Some(name))?, &path(name)?)));
    if let [Some(cpuset), Some(cpu), Some(memory)] = first {
        return Ok(Hierarchy::V1([cpuset, cpu, memory]));
    }
    match (mounted("cgroup2", None), path("")) {
        (Some(mount), Some(path)) => Ok(Hierarchy::V2(place(mount, &path))),
        _ => Err("this system has no control groups with the controllers cpuset, cpu and memory".into()),
    }
}

/// Removes groups of runs that were killed.
fn remove_stale(hierarchy: &Hierarchy) {
    for root in hierarchy.roots() {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
            if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                // A group in use cannot be removed.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// A name that no other group of this machine has.
pub fn unique_name() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("{PREFIX}{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The runner's process of a name by [`unique_name`].
pub fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

impl Group {
    /// # Errors
    /// A folder cannot be created, or a limit not be set.
    pub fn create(hierarchy: &Hierarchy, slot: &Slot) -> io::Result<Group> {
        let name = unique_name();
        let mut group = Group { folders: vec![] };
        for root in hierarchy.roots() {
            let folder = root.join(&name);
            fs::create_dir(&folder).map_err(|error| named(&folder, &error))?;
            group.folders.push(folder);
        }
        let cpus = slot.cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let quota_us = slot.quota.map(|cores| (cores * PERIOD_US as f64) as u64);
        let limits: Vec<(usize, &str, String)> = match hierarchy {
            Hierarchy::V1(roots) => {
                let memories = fs::read_to_string(roots[0].join("cpuset.mems")).unwrap_or_default();
                let memories = if memories.trim().is_empty() { "0".to_owned() } else { memories };
                let mut limits = vec![
                    (0, "cpuset.mems", memories),
                    (0, "cpuset.cpus", cpus),
                    (2, "memory.limit_in_bytes", slot.memory_bytes.to_string()),
                ];
                limits.extend(quota_us.map(|_| (1, "cpu.cfs_period_us", PERIOD_US.to_string())));
                limits.extend(quota_us.map(|us| (1, "cpu.cfs_quota_us", us.to_string())));
                limits
            }
            Hierarchy::V2(_) => {
                let mut limits = vec![(0, "cpuset.cpus", cpus), (0, "memory.max", slot.memory_bytes.to_string())];
                limits.extend(quota_us.map(|us| (0, "cpu.max", format!("{us} {PERIOD_US}"))));
                limits
            }
        };
        for (at, file, value) in limits {
            let path = group.folders[at].join(file);
            fs::write(&path, value.trim()).map_err(|error| named(&path, &error))?;
        }
        Ok(group)
    }

    /// The files into which a process writes 0 to enter the group.
    pub fn entries(&self) -> Vec<CString> {
        let entry = |folder: &PathBuf| CString::new(folder.join("cgroup.procs").as_os_str().as_bytes()).ok();
        self.folders.iter().filter_map(entry).collect()
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            // Processes that were just killed may still be leaving.
            for _ in 0..100 {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    _ => break,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::super::child::{Place, Process};
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let mount = |id: u32, root: &str, at: &str, kind: &str, options: &str| {
            format!("{id} 1 0:{id} {root} {at} rw,relatime - {kind} x {options}\n")
        };
        let first = mount(1, "/", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
            + &mount(2, "/", "/sys/fs/cgroup/cpuset", "cgroup", "rw,cpuset")
            + &mount(3, "/a", "/sys/fs/cgroup/memory", "cgroup", "rw,memory")
            + &mount(4, "/", "/sys/fs/cgroup/unified", "cgroup2", "rw");
        let own = "4:memory:/a/b\n3:cpuset:/\n2:cpu,cpuacct:/c\n0::/\n";
        let found = parse(&first, own).expect("version 1");
        let expected = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/cpu,cpuacct/c", "/sys/fs/cgroup/memory/b"];
        assert_eq!(found, Hierarchy::V1(expected.map(PathBuf::from)));
        let second = mount(1, "/", "/sys/fs/cgroup", "cgroup2", "rw,nsdelegate");
        assert_eq!(parse(&second, "0::/user.slice\n"), Ok(Hierarchy::V2("/sys/fs/cgroup/user.slice".into())));
        assert!(parse("", "").is_err());
    }

    #[test]
    fn a_process_is_in_its_group_until_both_are_gone() {
        // Without permission there is a reason, which the report shows.
        let Ok(hierarchy) = Hierarchy::find() else { return };
        let slot = Slot { cpus: vec![0], quota: Some(0.5), memory_bytes: 64 << 20 };
        let group = Group::create(&hierarchy, &slot).expect("a group");
        let folders = group.folders.clone();
        let place = Place { cpus: vec![], groups: group.entries() };
        let mut command = Command::new("sleep");
        command.arg("60");
        let process = Process::start("sleep", command, place).expect("it starts");
        let found = fs::read_to_string(format!("/proc/{}/cgroup", process.pid())).expect("the process");
        let name = folders[0].file_name().expect("a name").to_string_lossy().into_owned();
        assert_eq!(found.matches(&name).count(), folders.len(), "{found}");
        drop(process);
        drop(group);
        assert!(folders.iter().all(|folder| !folder.exists()));
    }

    #[test]
    fn names_tell_whose_groups_they_are() {
        let (a, b) = (unique_name(), unique_name());
        assert_ne!(a, b);
        assert_eq!((owner(&a), owner("another-7")), (Some(std::process::id()), None));
    }
}
