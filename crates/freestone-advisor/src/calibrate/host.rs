//! The operating system's description of the machine.

use std::fs;

use crate::profile::Host;

/// The description of this machine.
pub fn host() -> Host {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let is_virtual = field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let vendor = read("/sys/class/dmi/id/sys_vendor").or_else(|| read("/sys/hypervisor/type"));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().split(' ').next()?.parse::<u64>().ok());
    Host {
        name: read("/proc/sys/kernel/hostname").unwrap_or_default(),
        cpu: field("model name").or_else(|| field("Processor")).unwrap_or_else(|| std::env::consts::ARCH.into()),
        cores: std::thread::available_parallelism().map_or(1, |n| n.get()),
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        memory_bytes: memory.unwrap_or(0) << 10,
        page_bytes: page_bytes(),
        hypervisor: is_virtual.then(|| vendor.unwrap_or_else(|| "yes".into())),
    }
}

fn page_bytes() -> u64 {
    // SAFETY: a request to the system without arguments in memory.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(0)
}

/// A cache as the system describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportedCache {
    pub level: u32,
    pub bytes: u64,
    pub line_bytes: u64,
}

/// The caches for data, as the system describes them, in the order of their levels.
pub fn reported_caches() -> Vec<ReportedCache> {
    let folder = "/sys/devices/system/cpu/cpu0/cache";
    let mut caches = vec![];
    for index in 0..10 {
        let field = |name: &str| read(&format!("{folder}/index{index}/{name}"));
        let (Some(level), Some(kind), Some(size)) = (field("level"), field("type"), field("size")) else { continue };
        let line = field("coherency_line_size").and_then(|line| line.parse().ok()).unwrap_or(64);
        if let (Ok(level), Some(bytes), true) = (level.parse(), parse_size(&size), kind != "Instruction") {
            caches.push(ReportedCache { level, bytes, line_bytes: line });
        }
    }
    caches.sort_unstable();
    caches
}

fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.strip_suffix('K') {
        Some(digits) => (digits, 10),
        None => text.strip_suffix('M').map_or((text, 0), |digits| (digits, 20)),
    };
    digits.parse::<u64>().ok().map(|n| n << shift)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
