//! `freestone store`: what a database needs of an object store.

use crate::args::StoreCommand;
use crate::failure::Failure;
use crate::task::print;

pub fn run(command: &StoreCommand) -> Result<(), Failure> {
    let StoreCommand::Check { url, rounds } = command;
    let report = freestone::check_store(url, *rounds)?;
    let (rounds, attempts, failed) = (report.rounds, report.attempts, report.failed);
    let milliseconds = report.seconds * 1000.0;
    print(&format!(
        "fit: of {attempts} attempts to create {rounds} objects, one each succeeded; {failed} had errors; {milliseconds:.1} ms \
         an object"
    ))
}
