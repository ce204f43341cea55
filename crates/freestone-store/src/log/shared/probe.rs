//! Whether a store can hold a database that several processes write: of several attempts to make an object, one succeeds.
//! Some stores check first and write later, so that two may win; some ignore the condition. The only way to find out is to
//! try.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crate::log::{LogError, random_id};
use crate::media::MediumError;
use crate::media::objects::Objects;

/// The folder of the objects that a probe makes and removes.
pub(super) const FOLDER: &str = "probe";

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The number of objects.
    pub rounds: usize,
    /// The number of attempts to make each, at the same time.
    pub contenders: usize,
}

impl Probe {
    /// What every process tries before its first write.
    pub const SHORT: Probe = Probe { rounds: 1, contenders: 3 };
    /// What `freestone store check` tries.
    pub const LONG: Probe = Probe { rounds: 200, contenders: 8 };
}

/// What a probe has seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeReport {
    /// The number of objects.
    pub rounds: usize,
    /// The number of attempts to make them.
    pub attempts: usize,
    /// The attempts that had an error, and whose object was then found or not.
    pub failed: usize,
    /// The seconds that a round took, on average.
    pub seconds: f64,
}

/// Lets several threads try to make the same object, again and again.
///
/// # Errors
/// The store lets two win, ignores the condition, does not show what was made, or cannot be written.
pub fn probe(objects: &dyn Objects, Probe { rounds, contenders }: Probe) -> Result<ProbeReport, LogError> {
    let begun = Instant::now();
    let mut report = ProbeReport { rounds, attempts: rounds * contenders, ..ProbeReport::default() };
    for round in 1..=rounds {
        let name = format!("{FOLDER}/{:032x}", random_id());
        let found = one_round(objects, &name, contenders, &mut report);
        // What remains is not in the way of anything.
        let _ = objects.remove(&[name]);
        found.map_err(|found| match found {
            Found::Failed(error) => error.into(),
            Found::Unfit(reason) => {
                let tried = if rounds > 1 { format!(" (in attempt {round} of {rounds})") } else { String::new() };
                LogError::Unfit { place: objects.place(), reason: format!("{reason}{tried}") }
            }
        })?;
    }
    report.seconds = begun.elapsed().as_secs_f64() / rounds.max(1) as f64;
    Ok(report)
}

enum Found {
    Failed(MediumError),
    Unfit(String),
}

impl From<MediumError> for Found {
    fn from(error: MediumError) -> Found {
        match error.kind() {
            Some(std::io::ErrorKind::Unsupported) => {
                Found::Unfit(format!("it does not know how to create an object only if there is none: {error}"))
            }
            _ => Found::Failed(error),
        }
    }
}

fn one_round(objects: &dyn Objects, name: &str, contenders: usize, report: &mut ProbeReport) -> Result<(), Found> {
    let content = |number: usize| format!("{name} by {number}").into_bytes();
    let start = Barrier::new(contenders);
    let results: Vec<Result<bool, MediumError>> = thread::scope(|scope| {
        let attempt = |number: usize| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                objects.create(name, &content(number))
            })
        };
        let running: Vec<_> = (0..contenders).map(attempt).collect();
        let panicked = || MediumError::io("create", name, std::io::Error::other("a thread panicked"));
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked()))).collect()
    });
    let winners = results.iter().filter(|result| matches!(result, Ok(true))).count();
    report.failed += results.iter().filter(|result| result.is_err()).count();
    if winners > 1 {
        return Err(Found::Unfit(format!("of {contenders} that created an object, {winners} were told that they did")));
    }
    let Some(found) = objects.get(name)? else {
        let failure = results.into_iter().find_map(Result::err);
        return Err(failure.map_or_else(|| Found::Unfit("it does not show what was created".into()), Found::from));
    };
    // A lost answer of one that won is no fault of the store.
    let winner = results.iter().position(|result| matches!(result, Ok(true)));
    if winner.is_some_and(|winner| found != content(winner)) {
        return Err(Found::Unfit("an object was replaced by another attempt to create it".into()));
    }
    if objects.create(name, &content(contenders))? || objects.get(name)?.as_ref() != Some(&found) {
        return Err(Found::Unfit("it ignores the condition that there must be no object".into()));
    }
    Ok(())
}
