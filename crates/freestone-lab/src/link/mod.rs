//! An emulated slow network on one machine: two network namespaces, a TUN device in each, and a relay in user space
//! between them with a rate, a delay, a loss and a queue.
//!
//! Packets have at most 1500 bytes, because TUN devices without a virtio header neither segment nor coalesce. Both
//! directions of the link are alike. A packet waits until earlier ones have been sent at the link's rate. It is dropped
//! if the queue is full, or at random. It arrives `delay` after it was sent. The namespaces belong to threads of this
//! process. The kernel removes them and their devices when the process ends, however it ends.
//!
//! The command may change the rate while it runs: see [`CONTROL_VARIABLE`].

mod control;
mod relay;
mod tun;
mod validate;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use validate::Measured;

use crate::error::{LabError, Result};
use relay::Counters;
use tun::Namespace;

/// The server's address. The client has the previous one.
pub const SERVER: &str = "10.77.0.2";
const CLIENT: &str = "10.77.0.1";
/// Environment variables of a command: the file of the server's namespace, its address, and the link's measurements as
/// JSON.
pub const NAMESPACE_VARIABLE: &str = "FREESTONE_LINK_NAMESPACE";
pub const SERVER_VARIABLE: &str = "FREESTONE_LINK_SERVER";
pub const MEASURED_VARIABLE: &str = "FREESTONE_LINK_MEASURED";
/// The variable with the abstract name of a socket of the client's namespace. A line with a number of bits per second sets the rate
/// of both directions, for packets that are sent from then on. The answer is the line `ok`, or `error: ` and the reason.
pub const CONTROL_VARIABLE: &str = "FREESTONE_LINK_CONTROL";

/// The properties of a link, in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    pub bits_per_second: u64,
    /// The time from the end of a packet's sending to its arrival. A round trip has two delays.
    pub delay: Duration,
    /// The share of packets that are lost, independently.
    pub loss: f64,
    /// The bytes that may wait to be sent. `None` takes [`Link::default_queue_bytes`].
    pub queue_bytes: Option<usize>,
    /// The seed of the losses.
    pub seed: u64,
    /// TCP's congestion control, on both sides. `None`: the system's default.
    pub congestion: Option<Congestion>,
}

/// TCP's congestion control, by Linux's names.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    Reno,
    /// Linux's default, which reduces its rate at each loss, whatever the reason.
    Cubic,
    /// Follows measured rates, so that random losses cost it little.
    Bbr,
}

impl Congestion {
    /// Linux's name.
    pub fn name(self) -> &'static str {
        match self {
            Congestion::Reno => "reno",
            Congestion::Cubic => "cubic",
            Congestion::Bbr => "bbr",
        }
    }
}

impl Link {
    /// Four times the product of rate and round trip, and at least 256 KiB, so that the queue is never the bottleneck.
    pub fn default_queue_bytes(&self) -> usize {
        let in_flight = self.bits_per_second as f64 / 8.0 * 2.0 * self.delay.as_secs_f64();
        ((4.0 * in_flight) as usize).max(256 << 10)
    }

    fn queue_bytes(&self) -> usize {
        self.queue_bytes.unwrap_or_else(|| self.default_queue_bytes())
    }

    fn validate(&self) -> Result<()> {
        let wrong = |what: &str| Err(LabError::Usage(format!("{what}; see `freestone-lab link --help`")));
        if let Err(why) = valid_rate(self.bits_per_second) {
            return wrong(why);
        }
        match self {
            link if link.delay > Duration::from_secs(10) => wrong("a link's delay is at most 10 s"),
            link if !(0.0..=0.9).contains(&link.loss) => wrong("a link's loss is between 0 and 90 %"),
            link if link.queue_bytes() < 3000 => wrong("a link's queue holds at least 3000 bytes"),
            _ => Ok(()),
        }
    }
}

fn valid_rate(bits_per_second: u64) -> std::result::Result<u64, &'static str> {
    let is_valid = (10_000..=10_000_000_000).contains(&bits_per_second);
    if is_valid { Ok(bits_per_second) } else { Err("a link's rate is between 10 kbit and 10 gbit") }
}

/// Packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    pub delivered: u64,
    /// Lost at random.
    pub lost: u64,
    /// Dropped because the queue was full.
    pub overflowed: u64,
}

/// The end of a command, and the traffic of the link meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct CommandEnd {
    pub status: ExitStatus,
    pub to_server: Traffic,
    pub to_client: Traffic,
}

/// Creates the link, measures it, and runs `command` in the client's namespace until it ends.
///
/// The command finds the server's namespace and address in its environment; `nsenter --net=$FREESTONE_LINK_NAMESPACE`
/// runs programs there. It may change the rate ([`CONTROL_VARIABLE`]). `told` receives the measurements before the command starts.
///
/// # Errors
/// The process is not root, the devices cannot be created, or the command does not start.
pub fn run(link: &Link, command: &[OsString], told: impl FnOnce(&Measured)) -> Result<CommandEnd> {
    let up = RunningLink::new(link)?;
    let measured = validate::measure(link, &up.client, &up.server)?;
    control::serve(&up.client, up.bits_per_second.clone())?;
    let before = up.traffic();
    told(&measured);
    let json = serde_json::to_string(&measured).expect("numbers are JSON");
    let server = up.server.file.clone();
    let command = command.to_vec();
    let status = up.client.run(move || {
        let (program, arguments) = command.split_first().ok_or_else(|| LabError::Usage("no command to run".into()))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env(NAMESPACE_VARIABLE, server)
            .env(SERVER_VARIABLE, SERVER)
            .env(CONTROL_VARIABLE, control::NAME)
            .env(MEASURED_VARIABLE, json);
        end_with_this_thread(&mut command);
        command.status().map_err(|error| LabError::Network(format!("{} does not start: {error}", program.display())))
    })?;
    let [to_server, to_client] = up.traffic();
    Ok(CommandEnd { status, to_server: to_server.since(before[0]), to_client: to_client.since(before[1]) })
}

/// Lets the kernel send SIGTERM to the command when the thread that starts it ends: if this process is killed, the link
/// is gone, and nothing may remain that waits for it. The thread lives as long as its side of the link.
fn end_with_this_thread(command: &mut Command) {
    let parent = std::process::id();
    let ask = move || {
        // SAFETY: `prctl` with PR_SET_PDEATHSIG takes a number and no pointer, and changes only the calling process.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // If the parent ended before this call, no signal will be sent.
        match std::os::unix::process::parent_id() == parent {
            true => Ok(()),
            false => Err(std::io::Error::from(std::io::ErrorKind::Interrupted)),
        }
    };
    // SAFETY: between fork and exec the closure makes only system calls, without allocation or locks. An error from a
    // number allocates nothing.
    unsafe { command.pre_exec(ask) };
}

/// Measures a link without running anything on it.
///
/// # Errors
/// As for [`run`].
pub fn measure(link: &Link) -> Result<Measured> {
    let up = RunningLink::new(link)?;
    validate::measure(link, &up.client, &up.server)
}

/// Whether this process may create namespaces and devices; otherwise the reason.
pub fn available() -> std::result::Result<(), String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(Namespace::enter("10.77.0.5", None).map(drop));
    });
    match receiver.recv() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the thread that tried ended".into()),
    }
}

/// A working link: two sides, and four threads that relay packets between them.
struct RunningLink {
    client: tun::Side,
    server: tun::Side,
    counters: [Arc<Counters>; 2],
    /// The rate of both directions, now.
    bits_per_second: Arc<AtomicU64>,
}

impl RunningLink {
    fn new(link: &Link) -> Result<RunningLink> {
        link.validate()?;
        let (client, at_client) = tun::Side::new(CLIENT, link.congestion)?;
        let (server, at_server) = tun::Side::new(SERVER, link.congestion)?;
        let failed = |error| LabError::Network(format!("the relay does not start: {error}"));
        let bits_per_second = Arc::new(AtomicU64::new(link.bits_per_second));
        let direction =
            |from, to, seed| relay::direction(from, to, relay::Line::new(link, bits_per_second.clone(), seed));
        let there = direction(&at_client, &at_server, link.seed).map_err(failed)?;
        let back = direction(&at_server, &at_client, link.seed ^ 0x5EED).map_err(failed)?;
        Ok(RunningLink { client, server, counters: [there, back], bits_per_second })
    }

    /// The traffic to the server, and to the client.
    fn traffic(&self) -> [Traffic; 2] {
        [self.counters[0].traffic(), self.counters[1].traffic()]
    }
}

impl Traffic {
    fn since(self, before: Traffic) -> Traffic {
        Traffic {
            delivered: self.delivered - before.delivered,
            lost: self.lost - before.lost,
            overflowed: self.overflowed - before.overflowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::linux::net::SocketAddrExt;

    use super::*;

    fn link(bits_per_second: u64, delay_ms: u64, loss: f64) -> Link {
        Link {
            bits_per_second,
            delay: Duration::from_millis(delay_ms),
            loss,
            queue_bytes: None,
            seed: 7,
            congestion: None,
        }
    }

    #[test]
    fn a_link_has_the_rate_the_delay_and_the_loss_that_it_is_given() {
        if let Err(why) = available() {
            println!("SKIPPED: no link can be made here: {why}");
            return;
        }
        let measured = measure(&link(20_000_000, 10, 0.05)).expect("the link works");
        assert!((20.0..26.0).contains(&measured.ping_ms), "{measured:?}");
        assert!((17.0..=20.2).contains(&measured.rate_mbit), "{measured:?}");
        assert!((2.5..8.0).contains(&measured.loss_percent), "{measured:?}");
        let clean = measure(&link(20_000_000, 2, 0.0)).expect("the link works");
        assert!(clean.loss_percent == 0.0 && clean.tcp_mbit > 14.0 && clean.tcp_mbit < 20.0, "{clean:?}");
    }

    #[test]
    fn a_command_runs_on_the_clients_side() {
        if let Err(why) = available() {
            println!("SKIPPED: no link can be made here: {why}");
            return;
        }
        // Every Linux has Reno.
        let reno = Link { congestion: Some(Congestion::Reno), ..link(50_000_000, 1, 0.0) };
        let command = ["sh", "-c", "grep -qx reno /proc/sys/net/ipv4/tcp_congestion_control"].map(OsString::from);
        assert!(run(&reno, &command, |_| ()).expect("the command starts").status.success());
        let script = "ip addr show dev link0 | grep -q 10.77.0.1 && nsenter --net=$FREESTONE_LINK_NAMESPACE ip addr show \
                      dev link0 | grep -q $FREESTONE_LINK_SERVER && test -n \"$FREESTONE_LINK_MEASURED\" && exit 7";
        let command = ["sh", "-c", script].map(OsString::from);
        let ended = run(&link(50_000_000, 1, 0.0), &command, |measured| assert!(measured.ping_ms >= 2.0));
        assert_eq!(ended.expect("the command starts").status.code(), Some(7));
    }

    #[test]
    fn a_command_changes_the_rate() {
        if let Err(why) = available() {
            println!("SKIPPED: no link can be made here: {why}");
            return;
        }
        let up = RunningLink::new(&link(20_000_000, 2, 0.0)).expect("the link works");
        control::serve(&up.client, up.bits_per_second.clone()).expect("a socket");
        let ask = |line: &'static str| {
            let talk = move || {
                let address = std::os::unix::net::SocketAddr::from_abstract_name(control::NAME).expect("a name");
                let mut stream = std::os::unix::net::UnixStream::connect_addr(&address).expect("it listens");
                writeln!(stream, "{line}").expect("it reads");
                let mut answer = String::new();
                BufReader::new(stream).read_line(&mut answer).expect("it answers");
                Ok(answer)
            };
            up.client.run(talk).expect("the side works")
        };
        assert_eq!(ask("4000000"), "ok\n");
        let slower = validate::measure(&link(4_000_000, 2, 0.0), &up.client, &up.server).expect("the link works");
        assert!((3.4..=4.05).contains(&slower.rate_mbit), "{slower:?}");
        assert!(ask("fast").contains("number of bits per second"));
        assert!(ask("1").contains("between 10 kbit and 10 gbit"));
        // Sockets with abstract names belong to their namespace.
        let script = "python3 -c 'import os, socket; s = socket.socket(socket.AF_UNIX); \
                      s.connect(chr(0) + os.environ[\"FREESTONE_LINK_CONTROL\"]); s.sendall(b\"50000000\\n\"); \
                      assert s.recv(9) == b\"ok\\n\"'";
        let command = ["sh", "-c", script].map(OsString::from);
        assert!(run(&link(20_000_000, 1, 0.0), &command, |_| ()).expect("the command starts").status.success());
    }

    #[test]
    fn a_command_ends_with_the_thread_that_started_it() {
        let mut command = Command::new("sleep");
        command.arg("60");
        end_with_this_thread(&mut command);
        let child = std::thread::spawn(move || command.spawn().expect("there is a `sleep`")).join();
        let status = child.expect("the thread starts it").wait().expect("it is ours to wait for");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGTERM), "{status}");
    }

    #[test]
    fn senseless_links_are_refused() {
        for wrong in [link(1, 1, 0.0), link(1_000_000, 60_000, 0.0), link(1_000_000, 1, 1.5)] {
            assert!(measure(&wrong).expect_err("refused").to_string().contains("link"), "{wrong:?}");
        }
        assert_eq!(link(100_000_000, 25, 0.0).default_queue_bytes(), 4 * 625_000);
    }
}
