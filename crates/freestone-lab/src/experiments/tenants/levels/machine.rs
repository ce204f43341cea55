//! Virtual machines of QEMU. A machine has Debian's kernel (or another one from `/boot`), a memory file system that is
//! made of this program, `freestone` and their libraries, and the tenant's database on a disk for reading.
//!
//! Only processors with support for virtual machines give results. Emulation is no level.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::child::{Place, Process, Usage};
use super::super::interrupt;
use super::cgroup::{Group, Hierarchy};
use super::{Slot, guest};
use crate::error::{LabError, Result};

const QEMU: &str = "qemu-system-x86_64";
/// The drivers that a machine needs; those that are part of the kernel are no files.
const DRIVERS: [&str; 4] = ["virtio_pci", "virtio_blk", "virtio_net", "ext4"];
/// The memory that the kernel and the memory file system take in addition to the slot's.
const SYSTEM_BYTES: u64 = 768 << 20;
const BOOT_PATIENCE: Duration = Duration::from_secs(60);
/// An emulated machine is many times slower.
const EMULATED_PATIENCE: Duration = Duration::from_secs(400);

/// How a machine's processor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// By the processor itself.
    Kvm,
    /// Emulated, to try the machine's files. Never a result.
    Emulation,
}

/// The files of machines.
#[derive(Debug, Clone)]
pub struct Kit {
    pub version: String,
    accelerator: Accelerator,
    kernel: PathBuf,
    files: PathBuf,
    folder: PathBuf,
    hierarchy: Option<Hierarchy>,
}

/// A running machine, which is switched off with this value.
pub struct Machine {
    process: Process,
    _group: Option<Group>,
    server_port: u16,
    control_port: u16,
}

impl Kit {
    /// Finds hardware support, QEMU and a kernel, makes the memory file system, and boots a machine.
    ///
    /// # Errors
    /// The reason why there are no machines here, as text.
    pub fn find(folder: &Path, freestone: &Path, lab: &Path) -> Result<Kit, String> {
        supported()?;
        let kit = Kit::make(folder, freestone, lab, Accelerator::Kvm)?;
        let slot = Slot::whole(super::super::child::allowed_cpus(), 512 << 20);
        let booted = kit.boot("a trial machine", &slot, None).and_then(|machine| machine.ask("state"));
        booted.map(|_| kit).map_err(|error| error.to_string())
    }

    /// The files of a machine.
    ///
    /// # Errors
    /// A program or a kernel is missing, as text.
    pub fn make(folder: &Path, freestone: &Path, lab: &Path, accelerator: Accelerator) -> Result<Kit, String> {
        let output = Command::new(QEMU).arg("--version").output();
        let output = output.map_err(|_| format!("{QEMU} is not installed (apt-get install qemu-system-x86)"))?;
        let version = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or(QEMU).to_owned();
        Command::new("mke2fs").arg("-V").output().map_err(|_| "mke2fs is not installed (apt-get install e2fsprogs)")?;
        let (kernel, modules) = kernel()?;
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let files = folder.join("files.cpio");
        archive(&files, freestone, lab, &modules)
            .map_err(|error| format!("cannot make a memory file system: {error}"))?;
        let version =
            format!("{version}, {}", kernel.file_name().map_or(String::new(), |name| name.display().to_string()));
        Ok(Kit { version, accelerator, kernel, files, folder: folder.to_owned(), hierarchy: Hierarchy::find().ok() })
    }

    /// Boots a machine of a slot, whose server has `database` if there is one.
    ///
    /// # Errors
    /// The machine or its server does not start.
    pub fn boot(&self, name: &str, slot: &Slot, database: Option<&Path>) -> Result<Machine> {
        let broken = |what: String| LabError::Broken(format!("{name}: {what}"));
        let [server_port, control_port] = free_ports().map_err(|error| broken(error.to_string()))?;
        let mut command = self.command(slot, server_port, control_port);
        if let Some(database) = database {
            let image = self.image(database)?;
            command.arg("-drive").arg(format!("file={},format=raw,if=none,id=d0,readonly=on", image.display()));
            command.args(["-device", "virtio-blk-pci,drive=d0"]);
        }
        let larger = Slot { memory_bytes: slot.memory_bytes + 2 * SYSTEM_BYTES, ..slot.clone() };
        let group = self.hierarchy.as_ref().and_then(|hierarchy| Group::create(hierarchy, &larger).ok());
        let groups = group.as_ref().map_or(vec![], Group::entries);
        let process = Process::start(name, command, Place { cpus: slot.cpus.clone(), groups })?;
        let mut machine = Machine { process, _group: group, server_port, control_port };
        machine.wait(if self.accelerator == Accelerator::Kvm { BOOT_PATIENCE } else { EMULATED_PATIENCE })?;
        Ok(machine)
    }

    fn command(&self, slot: &Slot, server_port: u16, control_port: u16) -> Command {
        let forward = |port: u16, to: u16| format!("hostfwd=tcp:127.0.0.1:{port}-{}:{to}", guest::ADDRESS);
        let network = format!(
            "user,id=n0,restrict=on,{},{}",
            forward(server_port, guest::SERVER_PORT),
            forward(control_port, guest::CONTROL_PORT)
        );
        let line = format!(
            "console=ttyS0 quiet panic=-1 rdinit=/init freestone.threads={} freestone.memory={}",
            slot.threads(),
            slot.memory_bytes
        );
        let mut command = Command::new(QEMU);
        command.args(match self.accelerator {
            Accelerator::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Accelerator::Emulation => ["-accel", "tcg", "-cpu", "max"],
        });
        command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"]);
        command.arg("-m").arg(format!("{}M", (slot.memory_bytes + SYSTEM_BYTES) >> 20));
        command.arg("-smp").arg(slot.threads().to_string());
        command.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&self.files).arg("-append").arg(line);
        command.arg("-netdev").arg(network).args(["-device", "virtio-net-pci,netdev=n0,romfile="]);
        command
    }

    /// The database as an image of a disk, which remains as long as it is newer than the database.
    fn image(&self, database: &Path) -> Result<PathBuf> {
        let name = database.file_name().map_or("database".into(), |name| name.to_string_lossy().into_owned());
        let image = self.folder.join(format!("{name}.ext4"));
        let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
        if modified(&image).zip(modified(&database.with_extension("json"))).is_some_and(|(image, of)| image > of) {
            return Ok(image);
        }
        let bytes = folder_bytes(database).map_err(LabError::file(database))?;
        let kibibytes = (bytes / 1024) * 11 / 10 + (64 << 10);
        let _ = fs::remove_file(&image);
        let mut command = Command::new("mke2fs");
        command
            .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-d"])
            .arg(database)
            .arg(&image)
            .arg(format!("{kibibytes}k"));
        let made = Process::start("making a disk", command, Place::default())?.finish(Duration::from_secs(600));
        made.inspect_err(|_| {
            let _ = fs::remove_file(&image);
        })?;
        Ok(image)
    }
}

/// Boots an emulated machine with the server of a database, and asks it for its databases' tables.
///
/// # Errors
/// Something is missing, or the machine does not work.
pub fn try_emulated(freestone: &Path, database: &Path) -> Result<String> {
    interrupt::watch();
    let broken = |reason: String| LabError::Broken(reason);
    let lab = std::env::current_exe().map_err(|error| broken(error.to_string()))?;
    let folder = std::env::temp_dir().join(format!("freestone-lab-machine-{}", std::process::id()));
    let tried = || -> Result<String> {
        let kit = Kit::make(&folder, freestone, &lab, Accelerator::Emulation).map_err(broken)?;
        let slot = Slot::whole(super::super::child::allowed_cpus(), 1 << 30);
        let machine = kit.boot("an emulated machine", &slot, Some(database))?;
        let address = format!("freestone://freestone@{}?shared_memory=false", machine.address());
        let client = freestone_wire::blocking::Client::connect(&address).map_err(|error| broken(error.to_string()))?;
        let sql = "SELECT count(*) FROM information_schema.tables";
        let rows: usize = client
            .query(sql, None)
            .and_then(|stream| stream.map(|batch| batch.map(|batch| batch.num_rows())).sum::<Result<usize, _>>())
            .map_err(|error| broken(error.to_string()))?;
        let version = machine.run(&["freestone".into(), "--version".into()], Duration::from_secs(300))?;
        let version = version.lines().next().unwrap_or_default().to_owned();
        Ok(format!("{}: emulated, not a measurement; {version} answers with {rows} row", kit.version))
    };
    let result = tried();
    let _ = fs::remove_dir_all(&folder);
    result
}

/// Whether this processor runs virtual machines.
fn supported() -> Result<(), String> {
    fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").map_err(|error| format!("/dev/kvm: {error}"))?;
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = processor.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    if flags.split_whitespace().any(|flag| flag == "vmx" || flag == "svm") {
        return Ok(());
    }
    let loaded = |name: &&str| fs::exists(format!("/sys/module/{name}")).unwrap_or(false);
    let by = ["kvm_pvm", "kvm_intel", "kvm_amd"].into_iter().find(loaded).unwrap_or("another module");
    Err(format!(
        "the processor does not run virtual machines (neither vmx nor svm in /proc/cpuinfo; /dev/kvm is of {by}, which boots no \
         ordinary kernel): use a physical machine, or nested virtualization"
    ))
}

/// The newest kernel of `/boot` with its drivers: their paths in the order of loading.
fn kernel() -> Result<(PathBuf, Vec<PathBuf>), String> {
    let missing = "there is no kernel in /boot with drivers in /lib/modules (apt-get install linux-image-cloud-amd64)";
    let entries = fs::read_dir("/boot").into_iter().flatten().flatten();
    let mut kernels: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.strip_prefix("vmlinuz-")?.to_owned();
            let folder = Path::new("/lib/modules").join(&version);
            folder.join("modules.dep").exists().then(|| (version, entry.path()))
        })
        .collect();
    kernels.sort();
    let (version, path) = kernels.pop().ok_or(missing)?;
    let folder = Path::new("/lib/modules").join(version);
    let dependencies = fs::read_to_string(folder.join("modules.dep")).map_err(|error| error.to_string())?;
    Ok((path, drivers(&dependencies).into_iter().map(|module| folder.join(module)).collect()))
}

/// The drivers of a `modules.dep`, each after those that it needs.
fn drivers(dependencies: &str) -> Vec<String> {
    let mut order: Vec<String> = vec![];
    for name in DRIVERS {
        let stem = |path: &str| path.rsplit('/').next().and_then(|file| file.split('.').next()) == Some(name);
        let line = dependencies.lines().filter_map(|line| line.split_once(':')).find(|(path, _)| stem(path));
        let Some((path, needs)) = line else { continue };
        // The file names what a module needs from the nearest to the farthest.
        for module in needs.split_whitespace().rev().chain([path]) {
            if !order.iter().any(|known| known == module) {
                order.push(module.to_owned());
            }
        }
    }
    order
}

/// The libraries of a program, by `ldd`.
fn libraries(program: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let output = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(text.lines().filter_map(path).collect())
}

/// Writes the memory file system of machines.
fn archive(to: &Path, freestone: &Path, lab: &Path, modules: &[PathBuf]) -> io::Result<()> {
    let mut files = vec![(PathBuf::from("/init"), lab.to_owned()), (PathBuf::from("/freestone"), freestone.to_owned())];
    files.extend(libraries(lab)?.into_iter().chain(libraries(freestone)?).map(|path| (path.clone(), path)));
    files.extend(modules.iter().map(|path| (path.clone(), path.clone())));
    files.sort();
    files.dedup();
    let list: Vec<String> = modules.iter().map(|path| path.display().to_string()).collect();
    let mut out = io::BufWriter::new(fs::File::create(to)?);
    let mut folders = BTreeSet::from([PathBuf::from("/dev")]);
    for (path, _) in &files {
        folders.extend(path.ancestors().skip(1).filter(|at| at.parent().is_some()).map(Path::to_owned));
    }
    for (number, folder) in folders.iter().enumerate() {
        entry(&mut out, number, folder, 0o040_755, &[])?;
    }
    let start = folders.len();
    entry(&mut out, start, Path::new(guest::MARK), 0o100_644, &[])?;
    entry(&mut out, start + 1, Path::new("/modules.list"), 0o100_644, list.join("\n").as_bytes())?;
    for (number, (path, source)) in files.iter().enumerate() {
        entry(&mut out, start + 2 + number, path, 0o100_755, &fs::read(source)?)?;
    }
    entry(&mut out, 0, Path::new("/TRAILER!!!"), 0, &[])?;
    out.flush()
}

/// One file of a cpio archive in the form `newc`: thirteen numbers of eight hexadecimal digits, the name and the bytes,
/// each filled up to four bytes.
fn entry(out: &mut impl Write, number: usize, path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let name = path.display().to_string();
    let name = name.trim_start_matches('/');
    let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
    let size = u32::try_from(bytes.len()).map_err(|_| io::Error::other(format!("{name} is larger than 4 GiB")))?;
    write!(out, "070701")?;
    for field in [number as u32 + 1, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name.len() as u32 + 1, 0] {
        write!(out, "{field:08X}")?;
    }
    write!(out, "{name}\0")?;
    let fill = |written: usize| [0u8; 3].split_at(written.wrapping_neg() % 4).0.to_vec();
    out.write_all(&fill(110 + name.len() + 1))?;
    out.write_all(bytes)?;
    out.write_all(&fill(bytes.len()))
}

fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        sum += if data.is_dir() { folder_bytes(&entry.path())? } else { data.len().next_multiple_of(4096) };
    }
    Ok(sum)
}

/// Two ports that were free a moment ago.
fn free_ports() -> io::Result<[u16; 2]> {
    let first = TcpListener::bind("127.0.0.1:0")?;
    let second = TcpListener::bind("127.0.0.1:0")?;
    Ok([first.local_addr()?.port(), second.local_addr()?.port()])
}

impl Machine {
    /// Waits until the server accepts connections, or until there is a system without one.
    fn wait(&mut self, patience: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            match self.ask("state") {
                Ok(state) if state.starts_with("ready") || state == "no database" => return Ok(()),
                Ok(state) if state.starts_with("failed") => {
                    return Err(LabError::Broken(format!("the server of a virtual machine {state}")));
                }
                _ => {}
            }
            self.check()?;
            if start.elapsed() > patience {
                let console = self.process.text();
                let last = console.lines().last().unwrap_or("nothing").to_owned();
                return Err(LabError::Broken(format!(
                    "a virtual machine did not start within {} s; its console's last line: {last}",
                    patience.as_secs()
                )));
            }
            interrupt::pause(Duration::from_millis(50))?;
        }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.server_port)
    }

    /// # Errors
    /// The machine has ended.
    pub fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// The answer to a command, without its last line's end.
    ///
    /// # Errors
    /// The machine does not answer.
    pub fn ask(&self, command: &str) -> Result<String> {
        let asked = || -> io::Result<String> {
            let mut connection = TcpStream::connect(("127.0.0.1", self.control_port))?;
            connection.set_read_timeout(Some(Duration::from_secs(5)))?;
            writeln!(connection, "{command}")?;
            let mut line = String::new();
            if BufReader::new(connection).read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok(line.trim_end().to_owned())
        };
        asked().map_err(|error| LabError::Broken(format!("a virtual machine does not answer: {error}")))
    }

    /// Runs a program in the machine, and returns what it prints.
    ///
    /// # Errors
    /// It fails, or takes too long.
    pub fn run(&self, arguments: &[String], patience: Duration) -> Result<String> {
        let name = arguments.join(" ");
        let ran = || -> io::Result<String> {
            let mut connection = TcpStream::connect(("127.0.0.1", self.control_port))?;
            connection.set_read_timeout(Some(patience))?;
            // The laboratory is the machine's first process, and so has another name there.
            let words: Vec<&str> =
                arguments.iter().map(|word| if word == "freestone-lab" { "init" } else { word }).collect();
            writeln!(connection, "run {}", words.join(" "))?;
            let mut text = String::new();
            connection.read_to_string(&mut text)?;
            Ok(text)
        };
        let text = ran().map_err(|error| LabError::Broken(format!("{name} in a virtual machine: {error}")))?;
        let (output, status) = text.trim_end().rsplit_once(guest::STATUS).unwrap_or((&text, "none"));
        if status == "0" {
            return Ok(output.trim_end().to_owned());
        }
        Err(LabError::Broken(format!(
            "{name} in a virtual machine ended with status {status}: {}",
            self.process.text()
        )))
    }

    /// The time of QEMU, in which that of the machine's processors is user time, and the memory of the machine.
    pub fn usage(&self) -> Usage {
        self.process.usage()
    }

    /// The seconds that the server spent in the machine's own kernel.
    pub fn kernel_seconds(&self) -> Option<f64> {
        self.ask("usage").ok()?.split_whitespace().nth(1)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_come_after_those_that_they_need() {
        let dependencies = "kernel/virtio.ko:\nkernel/ring.ko: kernel/virtio.ko\n\
             kernel/virtio_pci.ko: kernel/ring.ko kernel/virtio.ko\nkernel/net/virtio_net.ko.xz: kernel/ring.ko kernel/virtio.ko\n";
        let expected = ["kernel/virtio.ko", "kernel/ring.ko", "kernel/virtio_pci.ko", "kernel/net/virtio_net.ko.xz"];
        assert_eq!(drivers(dependencies), expected);
        assert!(drivers("").is_empty());
    }

    #[test]
    fn archives_are_aligned() {
        let mut out = vec![];
        for (number, (name, bytes)) in [("/a", &b"xyz"[..]), ("/bc/de", b""), ("/TRAILER!!!", b"")].iter().enumerate() {
            entry(&mut out, number, Path::new(name), 0o100_644, bytes).expect("memory");
            assert_eq!(out.len() % 4, 0);
        }
        assert_eq!(out.windows(6).filter(|bytes| *bytes == b"070701").count(), 3);
        assert!(out.starts_with(b"07070100000001000081A400000000000000000000000100000000000000030000"));
    }
}
