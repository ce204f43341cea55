//! Measurements of a link: round trips, rate and losses with UDP, and the throughput of one TCP stream.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::tun::Side;
use super::{Link, SERVER};
use crate::error::{LabError, Result};

const PINGS: usize = 21;
/// The bytes of a datagram: with its headers a packet of 1500.
const DATAGRAM: usize = 1472;
const HEADERS: usize = 28;
const PACKET: usize = DATAGRAM + HEADERS;
/// The payload of a TCP packet with timestamps.
const TCP_PAYLOAD: usize = 1448;
/// Datagrams are sent at most at this rate when losses are counted, so that the receiver's socket loses none.
const LOSS_BITS_PER_SECOND: f64 = 50e6;
const UDP_SECONDS: f64 = 1.0;
const TCP_SECONDS: f64 = 2.0;
const ECHO: u16 = 7001;
const FLOOD: u16 = 7002;
const SINK: u16 = 7003;

/// The measurements of a link before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The requested properties.
    pub link: Link,
    /// Median round trip of small datagrams, in milliseconds.
    pub ping_ms: f64,
    /// The rate of arriving IP packets while more are sent than the link carries, or the rate of TCP if that is higher.
    pub rate_mbit: f64,
    /// Of datagrams sent at half of the rate, or at 50 Mbit/s.
    pub loss_percent: f64,
    /// The payload rate of one TCP stream with the system's congestion control.
    pub tcp_mbit: f64,
}

pub(super) fn measure(link: &Link, client: &Side, server: &Side) -> Result<Measured> {
    let (rate, _) = flood(link, client, server, 1.3)?;
    let share = (LOSS_BITS_PER_SECOND / link.bits_per_second as f64).min(0.5);
    let (_, loss_percent) = flood(link, client, server, share)?;
    let ping_ms = ping(link, client, server)?;
    let tcp_mbit = tcp(client, server)?;
    // Neither can be faster than the link. Datagrams that a busy receiver's full socket drops are not lost by the link.
    let rate_mbit = rate.max(tcp_mbit * PACKET as f64 / TCP_PAYLOAD as f64);
    Ok(Measured { link: *link, ping_ms, rate_mbit, loss_percent, tcp_mbit })
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> LabError {
    move |error| LabError::Network(format!("the link cannot be measured: {what}: {error}"))
}

/// Longer than any packet can be in transit.
fn patience(link: &Link) -> Duration {
    let queued = link.queue_bytes() as f64 * 8.0 / link.bits_per_second as f64;
    2 * link.delay + Duration::from_secs_f64(queued) + Duration::from_millis(300)
}

/// The median round trip in milliseconds, of datagrams that return.
fn ping(link: &Link, client: &Side, server: &Side) -> Result<f64> {
    let socket = server.run(|| UdpSocket::bind((SERVER, ECHO)).map_err(failed("no socket")))?;
    let patience = patience(link);
    let echo = std::thread::spawn(move || {
        let mut buffer = [0; 64];
        socket.set_read_timeout(Some(patience * 4))?;
        // The client ends with a datagram of one byte. If it is lost, the timeout ends the loop.
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            if length == 1 {
                break;
            }
            socket.send_to(&buffer[..length], from)?;
        }
        Ok::<_, std::io::Error>(())
    });
    let mut times = client.run(move || {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).map_err(failed("no socket"))?;
        socket.connect((SERVER, ECHO)).map_err(failed("no way to the server"))?;
        socket.set_read_timeout(Some(patience)).map_err(failed("no timeout"))?;
        let mut times = vec![];
        for number in 0..PINGS as u64 {
            let start = Instant::now();
            socket.send(&number.to_le_bytes()).map_err(failed("a datagram is refused"))?;
            let mut buffer = [0; 64];
            if let Ok(8) = socket.recv(&mut buffer)
                && buffer[..8] == number.to_le_bytes()
            {
                times.push(start.elapsed().as_secs_f64() * 1000.0);
            }
        }
        for _ in 0..5 {
            let _ = socket.send(&[0]);
        }
        Ok(times)
    })?;
    echo.join().expect("the echo does not panic").map_err(failed("no echo"))?;
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied();
    median.ok_or_else(|| LabError::Network("the link cannot be measured: no ping came back".into()))
}

/// Sends datagrams for a second at `share` of the link's rate. Returns the megabits per second of arrived packets, and
/// the percentage of lost ones.
fn flood(link: &Link, client: &Side, server: &Side, share: f64) -> Result<(f64, f64)> {
    let socket = server.run(|| UdpSocket::bind((SERVER, FLOOD)).map_err(failed("no socket")))?;
    let patience = patience(link);
    let sink = std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        let (mut count, mut first, mut last) = (0_u64, None, None);
        socket.set_read_timeout(Some(patience + Duration::from_secs(1)))?;
        while socket.recv(&mut buffer).is_ok() {
            count += 1;
            let now = Instant::now();
            first.get_or_insert(now);
            last = Some(now);
            socket.set_read_timeout(Some(patience))?;
        }
        let seconds = first.zip(last).map_or(0.0, |(first, last): (Instant, Instant)| (last - first).as_secs_f64());
        Ok::<_, std::io::Error>((count, seconds))
    });
    let packets_per_second = share * link.bits_per_second as f64 / 8.0 / PACKET as f64;
    let sent = client.run(move || {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).map_err(failed("no socket"))?;
        socket.connect((SERVER, FLOOD)).map_err(failed("no way to the server"))?;
        let (start, total) = (Instant::now(), ((packets_per_second * UDP_SECONDS) as u64).max(50));
        for number in 0..total {
            let due = Duration::from_secs_f64(number as f64 / packets_per_second);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
            socket.send(&[0; DATAGRAM]).map_err(failed("a datagram is refused"))?;
        }
        Ok(total)
    })?;
    let (count, seconds) = sink.join().expect("the sink does not panic").map_err(failed("no sink"))?;
    let bits = count.saturating_sub(1) as f64 * (PACKET * 8) as f64;
    let rate = if seconds > 0.0 { bits / seconds / 1e6 } else { 0.0 };
    Ok((rate, 100.0 * (1.0 - count as f64 / sent as f64)))
}

/// The payload rate of one TCP stream from the server to the client in megabits per second, including its start.
fn tcp(client: &Side, server: &Side) -> Result<f64> {
    let listener = server.run(|| TcpListener::bind((SERVER, SINK)).map_err(failed("no listener")))?;
    let source = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        let piece = vec![0; 64 << 10];
        // Until the client has read enough and closes.
        while stream.write_all(&piece).is_ok() {}
        Ok::<_, std::io::Error>(())
    });
    let rate = client.run(|| {
        let mut stream = TcpStream::connect((SERVER, SINK)).map_err(failed("no connection"))?;
        let (start, mut bytes) = (Instant::now(), 0_u64);
        let mut buffer = vec![0; 256 << 10];
        while start.elapsed().as_secs_f64() < TCP_SECONDS {
            bytes += stream.read(&mut buffer).map_err(failed("the stream breaks"))? as u64;
        }
        Ok(bytes as f64 * 8.0 / start.elapsed().as_secs_f64() / 1e6)
    })?;
    source.join().expect("the source does not panic").map_err(failed("no source"))?;
    Ok(rate)
}
