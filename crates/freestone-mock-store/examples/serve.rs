//! Serves the files of a folder as objects, each request answered later: `serve FOLDER BUCKET MILLISECONDS [ADDRESS]`. On its
//! standard input, each line asks for the requests and bytes since the last one; the end of the input ends it.

use std::error::Error;
use std::time::Duration;

use freestone_mock_store::Server;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, bucket, delay, rest @ ..] = arguments.as_slice() else {
        return Err("serve FOLDER BUCKET MILLISECONDS [ADDRESS]".into());
    };
    let server = Server::start_at(rest.first().map_or("127.0.0.1:0", String::as_str))?;
    server.create_bucket(bucket);
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            server.put(bucket, &name, std::fs::read(&path)?);
        }
    }
    server.delay(Duration::from_millis(delay.parse()?));
    println!("{}", server.endpoint());
    for _ in std::io::stdin().lines() {
        let traffic = server.take_traffic();
        println!("{} {}", traffic.total(), traffic.sent_bytes);
    }
    Ok(())
}
