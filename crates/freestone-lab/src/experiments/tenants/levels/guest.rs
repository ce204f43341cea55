//! The first process of a virtual machine: it mounts, loads drivers, sets up the network, starts the server, and passes
//! connections on to it.
//!
//! The machine's memory file system holds this program as `/init`, the file [`MARK`], the program `/freestone`, their
//! libraries, and drivers in the order of `/modules.list`.

use std::ffi::CStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::child::Usage;
use super::Slot;

/// The file that tells this program that it is such a process.
pub const MARK: &str = "/freestone-guest";
/// The address that QEMU's network gives its guest.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
/// The port that passes connections on to the server.
pub const SERVER_PORT: u16 = 5578;
/// The port that takes one command per connection: `state`, `usage`, or `run PROGRAM …`.
pub const CONTROL_PORT: u16 = 5579;
/// The start of the last line of a `run`.
pub const STATUS: &str = "freestone-lab-status: ";
const DATABASE: &str = "/database";

/// What the server has said of itself: nothing yet, its address, or why there is none.
type State = Arc<Mutex<String>>;

/// Whether this process is the first one of a virtual machine of the laboratory.
pub fn is_here() -> bool {
    std::process::id() == 1 && fs::exists(MARK).unwrap_or(false)
}

/// Runs until the machine is switched off.
pub fn init() -> ! {
    if let Err(error) = prepare() {
        say(&format!("error: {error}"));
    }
    let state: State = Arc::default();
    let mut server = None;
    if fs::exists("/dev/vda").unwrap_or(false) {
        match start_server(&state) {
            Ok(child) => server = Some(child),
            Err(error) => set(&state, &format!("failed: {error}")),
        }
    } else {
        set(&state, "no database");
    }
    let pid = server.as_ref().map(Child::id);
    let relayed = Arc::clone(&state);
    std::thread::spawn(move || relay(&relayed));
    if let Err(error) = control(&state, pid) {
        say(&format!("error: {error}"));
    }
    // The machine ends with its first process.
    // SAFETY: a system call without memory effects.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    std::process::exit(0)
}

/// Writes to the console.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn set(state: &State, text: &str) {
    text.clone_into(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
}

fn prepare() -> io::Result<()> {
    for (source, at, kind) in [
        (c"proc", c"/proc", c"proc"),
        (c"sysfs", c"/sys", c"sysfs"),
        (c"devtmpfs", c"/dev", c"devtmpfs"),
        (c"tmpfs", c"/tmp", c"tmpfs"),
    ] {
        mount(source, at, kind, 0)?;
    }
    for module in fs::read_to_string("/modules.list").unwrap_or_default().lines() {
        if let Err(error) = load(module) {
            say(&format!("error: {module}: {error}"));
        }
    }
    interface("lo", Ipv4Addr::LOCALHOST, Ipv4Addr::new(255, 0, 0, 0))?;
    interface("eth0", ADDRESS, Ipv4Addr::new(255, 255, 255, 0))?;
    if fs::exists("/dev/vda").unwrap_or(false) {
        mount(c"/dev/vda", c"/database", c"ext4", libc::MS_RDONLY)?;
    }
    Ok(())
}

fn mount(source: &CStr, at: &CStr, kind: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let folder = at.to_string_lossy();
    fs::create_dir_all(&*folder)?;
    // SAFETY: the strings end with a zero and outlive the call; no data is given.
    match unsafe { libc::mount(source.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) } {
        0 => Ok(()),
        _ => Err(io::Error::other(format!("cannot mount {folder}: {}", io::Error::last_os_error()))),
    }
}

/// Loads a driver; one that is there already is no error.
fn load(path: &str) -> io::Result<()> {
    /// `MODULE_INIT_COMPRESSED_FILE`.
    const COMPRESSED: libc::c_int = 4;
    let file = fs::File::open(path)?;
    let flags = if path.ends_with(".ko") { 0 } else { COMPRESSED };
    // SAFETY: the descriptor is open, and the parameters are an empty text.
    let loaded = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), flags) };
    match loaded {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            error => Err(error),
        },
    }
}

/// Gives an interface its address, and switches it on.
fn interface(name: &str, address: Ipv4Addr, mask: Ipv4Addr) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: all bytes zero are a valid `ifreq` of plain numbers.
    let empty = || unsafe { std::mem::zeroed::<libc::ifreq>() };
    let named = || {
        let mut request = empty();
        for (slot, byte) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
            *slot = byte as libc::c_char;
        }
        request
    };
    let call = |number: libc::c_ulong, request: &mut libc::ifreq| {
        // SAFETY: the request reads and writes one `ifreq`.
        match unsafe { libc::ioctl(socket.as_raw_fd(), number as _, request as *mut libc::ifreq) } {
            0.. => Ok(()),
            _ => Err(io::Error::other(format!("interface {name}: {}", io::Error::last_os_error()))),
        }
    };
    for (number, value) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask)] {
        let mut request = named();
        let place = &raw mut request.ifr_ifru;
        // SAFETY: an address of this family is not longer than the union that holds it.
        unsafe {
            let place = place.cast::<libc::sockaddr_in>();
            (*place).sin_family = libc::AF_INET as libc::sa_family_t;
            (*place).sin_addr.s_addr = u32::from_ne_bytes(value.octets());
        }
        call(number, &mut request)?;
    }
    let mut request = named();
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    call(libc::SIOCSIFFLAGS, &mut request)
}

/// The options that the kernel's command line has for this process, as `freestone.NAME=VALUE`.
fn option(name: &str) -> Option<u64> {
    let line = fs::read_to_string("/proc/cmdline").ok()?;
    line.split_whitespace()
        .find_map(|word| word.strip_prefix("freestone.")?.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

fn start_server(state: &State) -> io::Result<Child> {
    let slot = Slot {
        cpus: (0..option("threads").unwrap_or(1) as usize).collect(),
        quota: None,
        memory_bytes: option("memory").unwrap_or(1 << 30),
    };
    let mut command = Command::new("/freestone");
    command.args(super::serve_arguments(&slot, DATABASE)).env("HOME", "/tmp").stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (pipe, state) = (child.stderr.take(), Arc::clone(state));
    std::thread::spawn(move || {
        for line in pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()).map_while(Result::ok) {
            match line.strip_prefix("listening: freestone://") {
                Some(address) => set(&state, &format!("ready: {address}")),
                None if line.starts_with("error") => set(&state, &format!("failed: {line}")),
                None => {}
            }
            say(&line);
        }
    });
    Ok(child)
}

/// Passes connections from outside to the server, which listens to this machine only.
fn relay(state: &State) {
    let Ok(listener) = TcpListener::bind((Ipv4Addr::UNSPECIFIED, SERVER_PORT)) else { return };
    for outside in listener.incoming().flatten() {
        let address = state.lock().unwrap_or_else(PoisonError::into_inner).strip_prefix("ready: ").map(str::to_owned);
        let Some(inside) = address.and_then(|address| TcpStream::connect(address).ok()) else { continue };
        let _ = (outside.set_nodelay(true), inside.set_nodelay(true));
        let (Ok(outside_too), Ok(inside_too)) = (outside.try_clone(), inside.try_clone()) else { continue };
        std::thread::spawn(move || pass(outside, inside));
        std::thread::spawn(move || pass(inside_too, outside_too));
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = (from.shutdown(Shutdown::Read), to.shutdown(Shutdown::Write));
}

fn control(state: &State, server: Option<u32>) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, CONTROL_PORT))?;
    for connection in listener.incoming().flatten() {
        let state = Arc::clone(state);
        std::thread::spawn(move || {
            let _ = answer(connection, &state, server);
        });
    }
    Ok(())
}

fn answer(mut connection: TcpStream, state: &State, server: Option<u32>) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(connection.try_clone()?).read_line(&mut line)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["state"] => {
            let state = state.lock().unwrap_or_else(PoisonError::into_inner).clone();
            writeln!(connection, "{state}")
        }
        ["usage"] => {
            let usage = server.map_or(Usage::default(), super::super::child::usage_of);
            writeln!(
                connection,
                "{} {} {} {}",
                usage.user_seconds, usage.kernel_seconds, usage.resident_bytes, usage.switches
            )
        }
        ["run", program, arguments @ ..] => {
            let mut command = Command::new(format!("/{program}"));
            command.args(arguments).env("HOME", "/tmp").env("FREESTONE_PROFILE", "/tmp/profile.json");
            command.current_dir("/tmp").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
            let mut child = command.spawn()?;
            let mut text = vec![];
            child.stdout.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut text))?;
            connection.write_all(&text)?;
            writeln!(connection, "\n{STATUS}{}", child.wait()?.code().unwrap_or(-1))
        }
        _ => writeln!(connection, "unknown command"),
    }
}
