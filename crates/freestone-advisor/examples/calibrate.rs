//! Measures this machine and prints the profile: `cargo run --release -p freestone-advisor --example calibrate [--
//! FILE]`. With a file name, the profile is written there and the disk of its folder is measured.

use std::path::{Path, PathBuf};
use std::time::Instant;

use freestone_advisor::{CalibrateOptions, calibrate};

/// As in the `freestone` command, because the kind of memory pages determines their cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).map(PathBuf::from);
    let folder = file.as_deref().and_then(Path::parent).map(|f| if f == Path::new("") { Path::new(".") } else { f });
    let options = CalibrateOptions { folder: folder.map(Path::to_owned), ..CalibrateOptions::default() };
    let begin = Instant::now();
    let profile = calibrate(&options, &mut |what, share| {
        eprintln!("{:6.1} s {:3.0} % {what}", begin.elapsed().as_secs_f64(), share * 100.0);
    })?;
    for row in profile.rows() {
        let reported = row.reported.map(|r| format!("  ({r})")).unwrap_or_default();
        let figures = row
            .measured
            .map_or(String::new(), |m| format!("{:>14.4} {:>12.4} .. {:<12.4} {}", m.value, m.low, m.high, row.unit));
        println!("{:8} {:56} {figures}{reported}", row.topic, row.name);
    }
    profile.warnings.iter().for_each(|warning| println!("warning: {warning}"));
    println!("{:.1} s", profile.seconds);
    if let Some(file) = file {
        profile.save(&file)?;
    }
    Ok(())
}
