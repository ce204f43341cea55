//! One side of a link: a thread in a network namespace of its own, with a TUN device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;

use super::Congestion;
use crate::error::{LabError, Result};

/// The device's name on both sides. Each is the only one in its namespace.
const DEVICE: &str = "link0";
pub(super) const MTU: usize = 1500;
/// The number of packets that may wait for the relay to read them: more than it can leave unread, so that only the
/// relay drops packets.
const UNREAD_PACKETS: usize = 20_000;

/// The namespace of the calling thread, with its device.
pub(super) struct Namespace {
    pub device: File,
    /// The file through which other processes enter it, as long as the thread lives.
    pub file: PathBuf,
}

impl Namespace {
    /// Moves the calling thread into a new namespace with a device of this address.
    pub fn enter(address: &str, congestion: Option<Congestion>) -> Result<Namespace> {
        let needs = "a link needs the rights of root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and /dev/net/tun";
        let refused = |what: &str, error: io::Error| LabError::Network(format!("{needs}; {what}: {error}"));
        unshare_network().map_err(|error| refused("no network namespace", error))?;
        let device = open_device(DEVICE).map_err(|error| refused("no TUN device", error))?;
        let (mtu, queue) = (MTU.to_string(), UNREAD_PACKETS.to_string());
        ip(&["link", "set", "lo", "up"])?;
        ip(&["addr", "add", &format!("{address}/29"), "dev", DEVICE])?;
        ip(&["link", "set", DEVICE, "mtu", &mtu, "txqueuelen", &queue, "up"])?;
        congestion.map_or(Ok(()), control)?;
        let thread = std::fs::read_link("/proc/thread-self").map_err(LabError::file("/proc/thread-self".as_ref()))?;
        Ok(Namespace { device, file: PathBuf::from("/proc").join(thread).join("ns/net") })
    }
}

/// Sets TCP's congestion control of the calling thread's namespace.
fn control(congestion: Congestion) -> Result<()> {
    let name = congestion.name();
    std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => format!(
                "allow it in namespaces by sysctl -w net.ipv4.tcp_allowed_congestion_control='reno {name}', or choose reno"
            ),
            _ => format!("try modprobe tcp_{name}"),
        };
        LabError::Network(format!("this system refuses congestion control {name} for a link: {error}; {hint}"))
    })
}

/// Runs `ip`. The program is started by the calling thread, so it runs in that thread's namespace.
fn ip(arguments: &[&str]) -> Result<()> {
    let command = || format!("ip {}", arguments.join(" "));
    let output = Command::new("ip").args(arguments).output().map_err(|error| {
        LabError::Network(format!("cannot run `{}`: {error}; install iproute2, which sets devices up", command()))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(LabError::Network(format!("`{}` failed: {}", command(), said.trim())));
    }
    Ok(())
}

/// A thread that stays in its namespace and runs tasks there.
pub(super) struct Side {
    work: mpsc::Sender<Box<dyn FnOnce() + Send>>,
    pub file: PathBuf,
}

impl Side {
    /// A new namespace with its thread, and its device.
    pub fn new(address: &str, congestion: Option<Congestion>) -> Result<(Side, File)> {
        let (work, orders) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let (sender, receiver) = mpsc::channel();
        let address = address.to_owned();
        std::thread::spawn(move || {
            let entered = Namespace::enter(&address, congestion);
            let is_ready = entered.is_ok();
            // The caller that waits for the answer keeps the receiver.
            let _ = sender.send(entered);
            if is_ready {
                orders.into_iter().for_each(|order| order());
            }
        });
        let entered = receiver.recv().map_err(|_| LabError::Network("a side of the link ended".into()))??;
        Ok((Side { work, file: entered.file }, entered.device))
    }

    /// Runs `task` in the namespace, and returns its result.
    pub fn run<T: Send + 'static>(&self, task: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let (sender, receiver) = mpsc::channel();
        let ended = |_| LabError::Network("a side of the link ended".into());
        let order = Box::new(move || {
            // The receiver waits below.
            let _ = sender.send(task());
        });
        self.work.send(order).map_err(|_| LabError::Network("a side of the link ended".into()))?;
        receiver.recv().map_err(ended)?
    }
}

fn unshare_network() -> io::Result<()> {
    // SAFETY: `unshare` takes no pointer. CLONE_NEWNET changes which network the calling thread sees. It does not
    // change the sharing of memory, file descriptors or signal handlers.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Creates a TUN device in the calling thread's namespace: whole IP packets without a header, therefore without
/// segmentation offloads.
fn open_device(name: &str) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: all bytes zero are a valid `ifreq`: arrays of characters and a union of plain numbers and a pointer that
    // this request does not follow.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0.
    for (slot, byte) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *slot = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open during the call, and TUNSETIFF reads and writes one `ifreq`, to which the pointer
    // is valid and exclusive.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } {
        0.. => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}
