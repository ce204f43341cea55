//! Serves the files of a folder and of the folders in it as objects, each request answered later:
//! `serve FOLDER BUCKET MILLISECONDS [ADDRESS [BYTES_PER_SECOND]]`. On its standard input, each line asks for what was done since
//! the last one: all requests, the bytes that were sent, and the requests of each method as `GET=7`. The end of the input ends it.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use freestone_mock_store::Server;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, bucket, delay, rest @ ..] = arguments.as_slice() else {
        return Err("serve FOLDER BUCKET MILLISECONDS [ADDRESS [BYTES_PER_SECOND]]".into());
    };
    let server = Server::start_at(rest.first().map_or("127.0.0.1:0", String::as_str))?;
    server.create_bucket(bucket);
    put_all(&server, bucket, Path::new(folder), "")?;
    server.delay(Duration::from_millis(delay.parse()?));
    if let Some(rate) = rest.get(1) {
        server.limit_rate(rate.parse()?);
    }
    println!("{}", server.endpoint());
    for _ in std::io::stdin().lines() {
        let traffic = server.take_traffic();
        let methods = traffic.requests.iter().map(|(method, requests)| format!(" {method}={requests}"));
        println!("{} {}{}", traffic.total(), traffic.sent_bytes, methods.collect::<String>());
    }
    Ok(())
}

/// Writes the files of a folder as objects whose keys begin with `prefix`.
fn put_all(server: &Server, bucket: &str, folder: &Path, prefix: &str) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let key = format!("{prefix}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            put_all(server, bucket, &path, &format!("{key}/"))?;
        } else if path.is_file() {
            server.put(bucket, &key, fs::read(&path)?);
        }
    }
    Ok(())
}
