//! The amount of memory of this process.

use std::fs;
use std::path::Path;

/// The bytes of memory that this process may use: the machine's, or those of its control group, as in a container.
/// `None` if the system does not say.
pub fn limit() -> Option<usize> {
    least(|path| fs::read_to_string(path).ok())
}

fn least(read: impl Fn(&str) -> Option<String>) -> Option<usize> {
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next()?, parts.next()?);
        // A group of version 2 has all controllers. In version 1 each controller has groups of its own.
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            v1 if v1.split(',').any(|name| name == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        // The enclosing groups limit it as well.
        let folders = Path::new(group).ancestors().filter_map(|group| group.to_str());
        let of_folder =
            |group: &str| read(&format!("{root}{}/{file}", group.trim_end_matches('/')))?.trim().parse().ok();
        folders.filter_map(of_folder).min()
    });
    of_groups.chain(of_machine(&read("/proc/meminfo")?)).min()
}

fn of_machine(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kibibytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Option<usize> {
        least(|path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned()))
    }

    #[test]
    fn the_least_limit_counts() {
        let machine = ("/proc/meminfo", "MemFree: 1 kB\nMemTotal:       2048 kB\n");
        let v2 = ("/proc/self/cgroup", "0::/a/b\n");
        let v1 = ("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/y\n0::/\n");
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[machine]), Some(2048 << 10));
        assert_eq!(of(&[machine, v2, ("/sys/fs/cgroup/a/b/memory.max", "max\n")]), Some(2048 << 10));
        assert_eq!(of(&[machine, v2, ("/sys/fs/cgroup/a/memory.max", "5000\n")]), Some(5000));
        assert_eq!(of(&[machine, ("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "7\n")]), Some(7));
        assert_eq!(of(&[machine, v1, ("/sys/fs/cgroup/memory/y/memory.limit_in_bytes", "6000\n")]), Some(6000));
        let huge = ("/sys/fs/cgroup/memory/y/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(of(&[machine, v1, huge]), Some(2048 << 10));
        assert!(limit().is_none_or(|bytes| bytes > 1 << 20));
    }
}
