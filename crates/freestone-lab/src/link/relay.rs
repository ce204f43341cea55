//! One direction of a link: packets from one device arrive at the other one later, slower, or not at all.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::tun::MTU;
use super::{Link, Traffic};
use freestone_data::Random;

/// The counters of packets so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    delivered: AtomicU64,
    lost: AtomicU64,
    overflowed: AtomicU64,
}

impl Counters {
    pub fn traffic(&self) -> Traffic {
        let [delivered, lost, overflowed] = [&self.delivered, &self.lost, &self.overflowed].map(|n| n.load(Relaxed));
        Traffic { delivered, lost, overflowed }
    }
}

/// A packet in transit.
struct Packet {
    due: Instant,
    bytes: Vec<u8>,
}

/// Relays packets until the process ends: one thread reads them and decides when they arrive, another one waits until
/// then and writes them.
pub(super) fn direction(from: &File, to: &File, mut line: Line) -> io::Result<Arc<Counters>> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    let counters = Arc::new(Counters::default());
    let (sender, receiver) = mpsc::channel::<Packet>();
    let (taken, delivered) = (counters.clone(), counters.clone());
    std::thread::Builder::new().name("link-take".into()).spawn(move || {
        let mut buffer = vec![0; MTU];
        loop {
            let Ok(length) = from.read(&mut buffer) else { return };
            let due = match line.send(Instant::now(), length) {
                PacketFate::Arrives(due) => due,
                PacketFate::Lost => {
                    taken.lost.fetch_add(1, Relaxed);
                    continue;
                }
                PacketFate::Overflows => {
                    taken.overflowed.fetch_add(1, Relaxed);
                    continue;
                }
            };
            if sender.send(Packet { due, bytes: buffer[..length].to_vec() }).is_err() {
                return;
            }
        }
    })?;
    std::thread::Builder::new().name("link-give".into()).spawn(move || {
        for packet in receiver {
            let wait = packet.due.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                std::thread::sleep(wait);
            }
            // A device that is down accepts nothing: the packet is lost, as on an unplugged cable.
            if to.write(&packet.bytes).is_ok() {
                delivered.delivered.fetch_add(1, Relaxed);
            }
        }
    })?;
    Ok(counters)
}

/// Rate, delay, queue and loss, computed on instants.
pub(super) struct Line {
    /// Packets that wait when it changes keep the times that they have.
    bits_per_second: Arc<AtomicU64>,
    delay: Duration,
    loss: f64,
    queue_bytes: f64,
    /// The instant at which the line is free again.
    free: Option<Instant>,
    random: Random,
}

#[derive(Debug, PartialEq)]
enum PacketFate {
    Arrives(Instant),
    Lost,
    Overflows,
}

impl Line {
    /// A line whose rate others may change.
    pub fn new(link: &Link, bits_per_second: Arc<AtomicU64>, seed: u64) -> Line {
        Line {
            bits_per_second,
            delay: link.delay,
            loss: link.loss,
            queue_bytes: link.queue_bytes() as f64,
            free: None,
            random: Random::new(seed),
        }
    }

    /// Sends a packet of `bytes` at `now`. A lost packet also takes its time on the line.
    fn send(&mut self, now: Instant, bytes: usize) -> PacketFate {
        let seconds_per_byte = 8.0 / self.bits_per_second.load(Relaxed) as f64;
        let start = self.free.map_or(now, |free| free.max(now));
        // The longest time that a packet may wait to be sent is the size of the queue in time.
        if start - now > Duration::from_secs_f64(self.queue_bytes * seconds_per_byte) {
            return PacketFate::Overflows;
        }
        let sent = start + Duration::from_secs_f64(bytes as f64 * seconds_per_byte);
        self.free = Some(sent);
        match self.random.fraction() < self.loss {
            true => PacketFate::Lost,
            false => PacketFate::Arrives(sent + self.delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(loss: f64, queue_bytes: usize) -> Line {
        let link = Link {
            bits_per_second: 8_000_000,
            delay: Duration::from_millis(10),
            loss,
            queue_bytes: Some(queue_bytes),
            seed: 1,
            congestion: None,
        };
        Line::new(&link, Arc::new(AtomicU64::new(link.bits_per_second)), 1)
    }

    #[test]
    fn a_changed_rate_is_that_of_the_next_packet() {
        let (mut line, now, ms) = (line(0.0, 3000), Instant::now(), Duration::from_millis);
        assert_eq!(line.send(now, 1000), PacketFate::Arrives(now + ms(11)));
        line.bits_per_second.store(800_000, Relaxed);
        assert_eq!(line.send(now, 1000), PacketFate::Arrives(now + ms(21)));
        // The queue of 3000 bytes takes 30 ms now.
        assert_eq!(line.send(now, 2000), PacketFate::Arrives(now + ms(41)));
        assert_eq!(line.send(now, 1000), PacketFate::Overflows);
    }

    #[test]
    fn packets_queue_for_the_line_and_arrive_after_the_delay() {
        let (mut line, now, ms) = (line(0.0, 3000), Instant::now(), Duration::from_millis);
        assert_eq!(line.send(now, 1000), PacketFate::Arrives(now + ms(11)));
        assert_eq!(line.send(now, 1000), PacketFate::Arrives(now + ms(12)));
        // The line was idle from 2 to 20.
        assert_eq!(line.send(now + ms(20), 500), PacketFate::Arrives(now + ms(30) + Duration::from_micros(500)));
    }

    #[test]
    fn what_does_not_fit_into_the_queue_is_dropped() {
        let (mut line, now) = (line(0.0, 3000), Instant::now());
        let sent = (0..10).filter(|_| matches!(line.send(now, 1000), PacketFate::Arrives(_))).count();
        // One on the line and three in the queue.
        assert_eq!(sent, 4);
        assert!(matches!(line.send(now + Duration::from_millis(2), 1000), PacketFate::Arrives(_)));
    }

    #[test]
    fn the_share_of_losses_is_the_one_asked_for_and_the_same_each_time() {
        let losses = || {
            let (mut line, now) = (line(0.02, 1 << 30), Instant::now());
            (0..50_000).filter(|_| line.send(now, 100) == PacketFate::Lost).count()
        };
        assert_eq!(losses(), losses());
        assert!((900..1100).contains(&losses()), "{}", losses());
    }
}
