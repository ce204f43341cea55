//! The rate of a working link, which the command on it may change, for example in the middle of a transfer.
//!
//! A socket of the client's namespace takes lines with the new bits per second, as decimal digits, and answers `ok` or
//! `error: ` and the reason. Its name is abstract, so that no file remains, however the process ends.

use std::io::{self, BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::tun::Side;
use super::valid_rate;
use crate::error::{LabError, Result};

/// The abstract name of the socket.
pub(super) const NAME: &str = "freestone-link";

/// Begins to answer, until the process ends.
pub(super) fn serve(client: &Side, bits_per_second: Arc<AtomicU64>) -> Result<()> {
    let failed = |error: io::Error| LabError::Network(format!("the link's rate cannot be made changeable: {error}"));
    let listener = client.run(move || {
        let address = SocketAddr::from_abstract_name(NAME).map_err(failed)?;
        UnixListener::bind_addr(&address).map_err(failed)
    })?;
    let answer = move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away has no further wish.
            let _ = answer(&stream, &bits_per_second);
        }
    };
    std::thread::Builder::new().name("link-control".into()).spawn(answer).map_err(failed)?;
    Ok(())
}

fn answer(mut stream: &UnixStream, bits_per_second: &AtomicU64) -> io::Result<()> {
    for line in BufReader::new(stream).lines() {
        let line = line?;
        match line.trim().parse().map_err(|_| "the rate is a number of bits per second").and_then(valid_rate) {
            Ok(rate) => {
                bits_per_second.store(rate, Relaxed);
                stream.write_all(b"ok\n")?;
            }
            Err(why) => writeln!(stream, "error: {:?}: {why}", line.trim())?,
        }
    }
    Ok(())
}
