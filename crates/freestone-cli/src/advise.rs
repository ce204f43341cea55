//! `freestone calibrate` and `freestone advise`.

use std::path::Path;
use std::sync::Arc;

use freestone::{Advice, AdviseOptions, Calibration, Progress as _};
use freestone_report::terminal;

use crate::args::{AdviseArgs, CalibrateArgs, EngineArgs};
use crate::failure::{Failure, note};
use crate::progress::{Meter, Progress};
use crate::task::print;
use crate::threads::Threads;

/// Measures the machine, stores the profile and prints it.
pub fn calibrate(args: &CalibrateArgs) -> Result<(), Failure> {
    let folder = args.folder.clone().map_or_else(std::env::current_dir, Ok);
    let folder = folder.map_err(|error| Failure::error(format!("no folder to measure the disk in: {error}")))?;
    let calibration = Calibration { quick: args.quick, folder: Some(folder) };
    let meter = Arc::new(Meter::default());
    let worker = {
        let meter = meter.clone();
        std::thread::spawn(move || {
            meter.begin("calibrating", Some(100));
            freestone::calibrate(&calibration, &mut |_, share| meter.advance((share * 100.0) as u64))
        })
    };
    let mut progress = Progress::new(meter);
    while !worker.is_finished() {
        progress.tick();
        std::thread::sleep(Progress::INTERVAL);
    }
    drop(progress);
    let profile = worker.join().map_err(|_| Failure::error("calibration ended early".to_owned()))??;
    let findings = freestone_report::calibration::findings(&profile, &crate::task::versions());
    if args.json {
        print(&written(serde_json::to_string_pretty(&profile))?)?;
    } else if args.verbose {
        print(terminal::text(&findings).trim_end())?;
    } else {
        print(&freestone_report::calibration::conclusions(&profile).join("\n"))?;
    }
    if let Some(path) = &args.output {
        let page = freestone_report::page::html("Calibration", "What this machine costs a scan.", &[findings]);
        std::fs::write(path, page).map_err(|error| Failure::error(format!("{}: {error}", path.display())))?;
        note(format_args!("plots: {}", path.display()));
    }
    for warning in &profile.warnings {
        note(format_args!("warning: {warning}"));
    }
    note(format_args!("kept as {}", freestone::profile_path()?.display()));
    Ok(())
}

/// Recommends designs, and applies them with `--apply`.
pub fn advise(args: &AdviseArgs) -> Result<(), Failure> {
    let engine = EngineArgs { read_only: !args.apply || args.engine.read_only, ..args.engine.clone() };
    let database = crate::open(Some(&args.db), &engine)?;
    let threads = Threads::new(database.options().threads);
    let threads = threads.map_err(|error| Failure::error(format!("cannot start threads: {error}")))?;
    let options = AdviseOptions {
        table: args.table.clone(),
        budget: args.budget,
        workload: args.workload.as_deref().map(read_workload).transpose()?,
        max_copies: args.copies,
        verify: !args.no_verify,
    };
    let session = Arc::new(database.session());
    let advising = {
        let session = session.clone();
        threads.spawn(async move { session.advise(options).await })
    };
    let all =
        threads.wait_for(advising).map_err(|error| Failure::error(format!("advising ended early: {error}")))??;
    if args.json {
        print(&written(serde_json::to_string_pretty(&all))?)?;
    } else {
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        print(texts.join("\n").trim_end())?;
    }
    if args.apply { apply(&all, session, &threads) } else { Ok(()) }
}

fn apply(all: &[Advice], session: Arc<freestone::Session>, threads: &Threads) -> Result<(), Failure> {
    let mut applied = 0;
    for (apply, revert) in all.iter().flat_map(Advice::changes) {
        let (session, statement) = (session.clone(), apply.clone());
        let converting = threads.spawn(async move { session.sql(&statement).await?.collect().await });
        let ended = threads.wait_for(converting);
        ended.map_err(|error| Failure::error(format!("converting ended early: {error}")))??;
        note(format_args!("applied: {apply}\nto go back: {revert}"));
        applied += 1;
    }
    if applied == 0 {
        note("nothing to apply: the tables keep their designs");
    }
    Ok(())
}

fn read_workload(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::with_hint(
            format!("{}: {error}", path.display()),
            "a workload is a file of SELECTs, each with a comment `-- weight: 10` before it if it runs more often",
        )
    })
}

fn written(json: serde_json::Result<String>) -> Result<String, Failure> {
    json.map_err(|error| Failure::error(format!("internal error: {error}")))
}
