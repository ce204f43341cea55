//! The loopback network of this machine, the upper bound for every client.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use super::timing::Timing;
use crate::profile::Measured;

/// Bytes per nanosecond through a local TCP connection; 0 if there is no connection.
pub fn loopback(timing: &Timing) -> Measured {
    let (rounds, bytes) = if timing.is_quick() { (2, 4 << 20) } else { (7, 64 << 20) };
    let samples: Vec<f64> = (0..rounds).filter_map(|_| transfer(bytes).ok()).collect();
    Measured::of(&samples)
}

fn transfer(bytes: usize) -> std::io::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || -> std::io::Result<()> {
            let mut stream = TcpStream::connect(address)?;
            let block = vec![7u8; 256 << 10];
            (0..bytes / block.len()).try_for_each(|_| stream.write_all(&block))
        });
        let (mut stream, _) = listener.accept()?;
        let mut block = vec![0u8; 256 << 10];
        let (start, mut received) = (Instant::now(), 0usize);
        loop {
            match stream.read(&mut block)? {
                0 => break,
                n => received += n,
            }
        }
        let ns = start.elapsed().as_nanos() as f64;
        sender.join().map_err(|_| std::io::Error::other("the sender ended early"))??;
        Ok(received as f64 / ns.max(1.0))
    })
}
