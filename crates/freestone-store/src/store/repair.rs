//! `freestone check --repair`: makes a damaged commit log usable again. Nothing is deleted or dropped silently: lost
//! commits are described one by one, and files that only lost commits named are renamed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::commit::{Commit, Operation};
use super::objects::Object;
use super::state::State;
use super::vacuum::unknown_segments;
use super::{Store, apply};
use crate::error::{Result, StoreError};
use crate::log::{Log, Record, RepairReport, set_aside};
use crate::media::{Disk, DiskOptions, Medium, MediumError};
use crate::table::segment_file;

/// The results of a repair.
#[derive(Debug)]
pub struct Repaired {
    /// What was done to the log.
    pub log: RepairReport,
    /// Descriptions of the lost commits, as far as they can be read, with their tables and rows.
    pub lost: Vec<String>,
    /// The new names of segment files that only lost commits named. They contain those commits' rows.
    pub set_aside: Vec<String>,
}

impl Repaired {
    /// Whether the log was sound and is unchanged.
    pub fn found_nothing(&self) -> bool {
        let expected = self.log.expected_sequence.is_some_and(|expected| expected <= self.log.last_sequence);
        expected && self.log.cut_bytes == 0 && self.log.unusable.is_empty()
    }
}

impl Store {
    /// Makes the commit log of a database folder usable again, as far as it is sound. Segments are not changed: see
    /// [`Store::check`] for those.
    ///
    /// # Errors
    /// The folder contains no usable log, another process writes, or the medium fails. In the first two cases nothing
    /// is changed.
    pub fn repair(path: &Path) -> Result<Repaired> {
        Store::repair_on(Arc::new(Disk::open(path, false, DiskOptions::default())?))
    }

    /// As [`Store::repair`], on any medium.
    ///
    /// # Errors
    /// As for [`Store::repair`].
    pub fn repair_on(medium: Arc<dyn Medium>) -> Result<Repaired> {
        let (mut lost, mut aside) = (vec![], vec![]);
        let log = Log::repair(medium.clone(), |intended| {
            let state = intended.kept.iter().try_fold(State::default(), |state, record| apply(record, &state))?;
            if intended.report.loses_commits() {
                lost = describe_lost(&state, intended.report, intended.lost);
                aside = set_unknown_segments_aside(&medium, &state)?;
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(Repaired { log, lost, set_aside: aside })
    }
}

/// Renames the segment files that no remaining commit names, because the next writer would remove them as leftovers.
fn set_unknown_segments_aside(medium: &Arc<dyn Medium>, state: &State) -> Result<Vec<String>, MediumError> {
    let aside = unknown_segments(medium, state)?;
    let aside = aside.iter().map(|name| set_aside(medium, name)).collect::<Result<Vec<_>, _>>()?;
    if !aside.is_empty() {
        medium.sync_folder("segments")?;
    }
    Ok(aside)
}

/// A line for each lost commit, and one for each sequence of unreadable ones.
fn describe_lost(state: &State, report: &RepairReport, readable: &[Record]) -> Vec<String> {
    let mut names: BTreeMap<u64, String> = state.all().map(|table| (table.id, table.name.clone())).collect();
    names.extend(state.objects.all().map(|object| (object.id, state.describe(object))));
    let mut lines = vec![];
    let mut next = report.last_sequence + 1;
    for record in readable {
        lines.extend(unreadable(next, record.sequence - 1));
        let what = match Commit::parse(&record.body) {
            Ok(commit) => describe(&commit, &mut names),
            Err(reason) => reason,
        };
        lines.push(format!("commit {}: {what}", record.sequence));
        next = record.sequence + 1;
    }
    match report.expected_sequence {
        Some(expected) => lines.extend(unreadable(next, expected)),
        None if report.cut_bytes > 0 && readable.is_empty() => {
            lines.push(format!("commits from {next} on, if there were any, cannot be read"));
        }
        None => {}
    }
    lines
}

fn unreadable(first: u64, last: u64) -> Option<String> {
    match last.checked_sub(first)? {
        0 => Some(format!("commit {first} cannot be read")),
        _ => Some(format!("commits {first} to {last} cannot be read")),
    }
}

/// A description of a commit.
fn describe(commit: &Commit, names: &mut BTreeMap<u64, String>) -> String {
    let mut parts = vec![];
    let mut added: BTreeMap<u64, (u64, Vec<String>)> = BTreeMap::new();
    let (mut replaced, mut deleted) = (BTreeSet::new(), BTreeSet::new());
    for operation in &commit.operations {
        match operation {
            Operation::CreateTable { table, name, .. } => {
                names.insert(*table, name.clone());
                parts.push(format!("creates table {name}"));
            }
            Operation::CreateCopy { copy, table, name, .. } => {
                let of = name_of(names, *table);
                names.insert(*copy, format!("{of} (copy {name})"));
                parts.push(format!("creates copy {name} of {of}"));
            }
            Operation::DropTable { table } => parts.push(format!("drops table {}", name_of(names, *table))),
            Operation::SetDesign { table, design } => {
                parts.push(format!("sets the design of {} to {design}", name_of(names, *table)));
            }
            Operation::SetSchema { table, .. } => {
                parts.push(format!("changes the columns or constraints of {}", name_of(names, *table)));
            }
            Operation::RenameTables { names: renamed } => {
                for (table, name) in renamed {
                    parts.push(format!("renames {} to {name}", name_of(names, *table)));
                    names.insert(*table, name.clone());
                }
            }
            Operation::AddSegment { table, segment, rows, .. } => {
                let (sum, files) = added.entry(*table).or_default();
                *sum += u64::from(*rows);
                files.push(segment_file(*segment));
            }
            Operation::AppendRows { table, rows, .. } => added.entry(*table).or_default().0 += u64::from(*rows),
            Operation::RemoveSegments { table, .. } => {
                replaced.insert(*table);
            }
            Operation::DeleteRows { table, .. } => {
                deleted.insert(*table);
            }
            Operation::CreateObject { .. } | Operation::ReplaceObjects { .. } | Operation::DropObject { .. } => {
                parts.extend(describe_objects(operation, names));
            }
            Operation::CreateView { name, .. } => parts.push(format!("makes view {name}")),
            Operation::DropView { name } => parts.push(format!("drops view {name}")),
            Operation::SetPool { id } => parts.push(format!("makes the pool {id} of persistent memory")),
            Operation::SetPools { table, .. } => {
                parts.push(format!("moves rows of {} to or from persistent memory", name_of(names, *table)));
            }
            Operation::Changed { .. }
            | Operation::SetUses { .. }
            | Operation::CopyIsCurrent { .. }
            | Operation::ViewIsCurrent { .. }
            | Operation::Forget { .. }
            | Operation::PoolCommit { .. }
            | Operation::Removed { .. }
            | Operation::LastId { .. } => {}
        }
    }
    parts.extend(deleted.iter().map(|table| format!("deletes rows of {}", name_of(names, *table))));
    parts.extend(replaced.iter().map(|table| format!("removes segments of {}", name_of(names, *table))));
    parts.extend(added.iter().map(|(table, (rows, files))| {
        let name = name_of(names, *table);
        match files.is_empty() {
            true => format!("adds {rows} rows to {name}"),
            false => format!("adds {rows} rows to {name} ({})", files.join(", ")),
        }
    }));
    if parts.is_empty() { "changes no rows".into() } else { parts.join("; ") }
}

/// A description of what an operation does to objects that are no tables.
fn describe_objects(operation: &Operation, names: &mut BTreeMap<u64, String>) -> Vec<String> {
    match operation {
        Operation::CreateObject { object } => {
            let described = described(object, names);
            names.insert(object.id, described.clone());
            vec![format!("creates {described}")]
        }
        Operation::ReplaceObjects { objects } => {
            objects.iter().map(|object| format!("changes {}", described(object, names))).collect()
        }
        Operation::DropObject { object } => vec![format!("drops {}", name_of(names, *object))],
        _ => vec![],
    }
}

fn described(object: &Object, names: &BTreeMap<u64, String>) -> String {
    match object.owner.filter(|_| object.name.is_empty()) {
        Some(owner) => format!("the {} of {}", object.kind().word(), name_of(names, owner)),
        None => format!("{} {}", object.kind().word(), object.name),
    }
}

fn name_of(names: &BTreeMap<u64, String>, table: u64) -> String {
    names.get(&table).cloned().unwrap_or_else(|| format!("table number {table}"))
}
