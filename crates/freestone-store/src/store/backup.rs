//! Backups: a state of the database in another folder, which is a database itself.
//!
//! Segments never change, so a backup copies their files while others read and write, and a later backup into the same
//! folder copies only those that are new. The folder has the old state until all files of the new one are there and
//! checked. Both databases have the same number: one is a copy of the other.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::check::check_some;
use super::commit::{Commit, Operation};
use super::files::NewFiles;
use super::locks::{Mode, Waiting};
use super::objects::Object;
use super::state::State;
use super::vacant::check_vacant;
use super::vacuum::unknown_segments;
use super::{Store, StoreOptions};
use crate::error::{Result, StoreError};
use crate::log::{Log, LogReader};
use crate::media::{Disk, DiskOptions, Medium, MediumError, ReadFile};
use crate::table::{Resources, SegmentEntry, segment_file};

/// Bytes that are copied at a time.
const STEP: usize = 4 << 20;
/// Bytes at the end of a segment's file that differ between segments: its footer has sums of all that is in it.
const END_BYTES: u64 = 4096;

/// What a backup or its restoration has copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The tables.
    pub tables: usize,
    /// The files that were copied.
    pub files_copied: usize,
    /// Their bytes.
    pub bytes_copied: u64,
    /// The files that were there already.
    pub files_kept: usize,
}

impl Store {
    /// Makes a folder a backup of the current state, of the tables and other objects whose names are wanted. It is created, or has
    /// an earlier backup of the same database. All files that are copied are checked.
    ///
    /// # Errors
    /// The folder has something else, or a later state; a table is in persistent memory; or a medium fails. An earlier
    /// backup is then still there.
    pub fn backup(&self, target: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Result<BackupReport> {
        let snapshot = self.snapshot()?;
        let mut state = wanted(&snapshot.state, is_wanted)?;
        let disk = DiskOptions { umask: self.options.disk.umask, ..DiskOptions::default() };
        let medium: Arc<dyn Medium> = Arc::new(Disk::open(target, true, disk)?);
        if medium.place() == self.resources.medium.place() {
            return Err(StoreError::invalid("a database is no backup of itself; name another folder"));
        }
        if !Log::exists(&medium)? {
            check_vacant(target)?;
        }
        let database = self.database()?;
        let mut log = Log::open_copy(medium.clone(), database)?;
        if log.last_sequence() > state.sequence {
            let place = medium.place();
            return Err(StoreError::invalid(format!("{place} has a later state of the database; name another folder")));
        }
        let mut report = BackupReport { tables: state.tables.len(), ..BackupReport::default() };
        let copied = copy_segments(&self.resources.medium, &medium, &state, &mut report, &|_| {})?;
        use_medium(&mut state, &medium);
        check_some(&state, &|segment| copied.contains(&segment))?;
        log.checkpoint_at(state.sequence, &Commit::of_state(&state).to_bytes())?;
        // Also what an interrupted backup has left.
        let unknown = unknown_segments(&medium, &state)?;
        let partial = medium.list("segments/")?.into_iter().filter(|name| name.ends_with(PARTIAL));
        unknown.into_iter().chain(partial).try_for_each(|name| medium.remove(&name))?;
        Ok(report)
    }

    /// Replaces all tables and other objects whose names are wanted by those of a backup, in one commit. Others read and write
    /// meanwhile, and see the tables as they were before or after it.
    ///
    /// # Errors
    /// The folder has no backup of this database, and this one is not empty; or a medium fails. Nothing has changed then.
    pub fn restore(&self, source: &Path, waiting: Waiting, is_wanted: &dyn Fn(&str) -> bool) -> Result<BackupReport> {
        self.refuse_shared("RESTORE")?;
        let options = StoreOptions { read_only: true, cache_bytes: 16 << 20, ..self.options.clone() };
        let backup = Store::open(source, options)?;
        let snapshot = backup.snapshot()?;
        let mut state = wanted(&snapshot.state, is_wanted)?;
        let _maintenance = self.maintenance.lock();
        let mut transaction = self.write()?;
        transaction.set_waiting(waiting);
        let now = self.snapshot()?;
        let replaced: Vec<String> =
            now.tables().map(|table| table.name.clone()).filter(|name| is_wanted(name)).collect();
        if backup.database()? != self.database()? && now.state.last_id > 0 {
            return Err(StoreError::invalid(format!(
                "{} is a backup of another database; restore it into a new one, or open it: it is a database itself",
                source.display()
            )));
        }
        for name in &replaced {
            transaction.lock(name, Mode::Exclusive)?;
        }
        let files = transaction.files()?;
        let mut report = BackupReport { tables: state.tables.len(), ..BackupReport::default() };
        let copied =
            copy_segments(&backup.resources.medium, &self.resources.medium, &state, &mut report, &|id| files.add(id))?;
        use_medium(&mut state, &self.resources.medium);
        check_some(&state, &|segment| copied.contains(&segment))?;
        let commit = replacement(&now.state, &state, &replaced, is_wanted);
        self.commit_with_others(&files, true, Box::new(move |_| Ok(commit.clone())))?;
        drop::<Arc<NewFiles>>(files);
        Ok(report)
    }

    /// The number of the database.
    fn database(&self) -> Result<u128> {
        if let Some(log) = &self.shared {
            return Ok(log.database());
        }
        let number = self.reader.lock().log.as_ref().map(LogReader::database);
        number.ok_or_else(|| StoreError::invalid("the database has no log yet"))
    }
}

/// A file that is not complete.
const PARTIAL: &str = ".part";

/// The part of a state that is in files and in the log.
fn wanted(state: &State, is_wanted: &dyn Fn(&str) -> bool) -> Result<State> {
    let mut state = State { pool: None, pool_commit: 0, ..state.clone() };
    state.removed.clear();
    state.tables.retain(|name, _| is_wanted(name));
    let wanted: HashSet<u64> = wanted_objects(&state, is_wanted).into_iter().map(|object| object.id).collect();
    state.objects_mut().retain(|object| wanted.contains(&object.id));
    let tables: HashSet<u64> = state.tables.values().map(|table| table.id).collect();
    state.copies.retain(|_, copy| copy.copy_of.as_ref().is_some_and(|of| tables.contains(&of.table)));
    let in_pool = |entry: &SegmentEntry| entry.is_in_pool();
    if let Some(table) = state.all().find(|table| !table.pools.is_empty() || table.segments.iter().any(in_pool)) {
        return Err(StoreError::invalid(format!(
            "table {} has rows in persistent memory, which is no part of a backup; ALTER TABLE {} SET DESIGN (medium = \
             'disk') moves them to files",
            table.name, table.name
        )));
    }
    Ok(state)
}

/// The objects of wanted names, with what belongs to them and to wanted tables.
fn wanted_objects<'s>(state: &'s State, is_wanted: &dyn Fn(&str) -> bool) -> Vec<&'s Arc<Object>> {
    let tables = state.tables.values().filter(|table| is_wanted(&table.name)).map(|table| table.id);
    let mut ids: HashSet<u64> = tables.collect();
    let has_name = |object: &&Arc<Object>| object.name.is_empty() || is_wanted(&object.name);
    let (free, owned): (Vec<_>, Vec<_>) =
        state.objects.all().filter(has_name).partition(|object| object.owner.is_none());
    ids.extend(free.iter().map(|object| object.id));
    let owned = owned.into_iter().filter(|object| object.owner.is_some_and(|owner| ids.contains(&owner)));
    free.iter().copied().chain(owned).collect()
}

/// Lets the tables of a state read their segments on a medium.
fn use_medium(state: &mut State, medium: &Arc<dyn Medium>) {
    let resources = Arc::new(Resources::new(medium.clone(), STEP));
    for table in state.tables.values_mut().chain(state.copies.values_mut()) {
        let table = Arc::make_mut(table);
        table.resources = Some(resources.clone());
        table.segments = table.segments.iter().map(SegmentEntry::unopened).collect();
    }
}

/// Copies the segments that are not there yet, and returns their ids. `add` is told of each before it is created.
fn copy_segments(
    from: &Arc<dyn Medium>,
    to: &Arc<dyn Medium>,
    state: &State,
    report: &mut BackupReport,
    add: &dyn Fn(u64),
) -> Result<HashSet<u64>> {
    let mut copied = HashSet::new();
    for entry in state.file_segments() {
        let name = segment_file(entry.id);
        let source = from.open(&name)?;
        let len = source.len()?;
        match to.open(&name) {
            Ok(there) if have_same_end(source.as_ref(), there.as_ref())? => {
                report.files_kept += 1;
                continue;
            }
            Ok(_) => to.remove(&name)?,
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        add(entry.id);
        copy(source.as_ref(), to.as_ref(), &name)?;
        copied.insert(entry.id);
        report.files_copied += 1;
        report.bytes_copied += len;
    }
    if !copied.is_empty() {
        to.sync_folder("segments")?;
    }
    Ok(copied)
}

fn have_same_end(one: &dyn ReadFile, other: &dyn ReadFile) -> Result<bool, MediumError> {
    let len = one.len()?;
    if len != other.len()? {
        return Ok(false);
    }
    let at = len.saturating_sub(END_BYTES);
    let end = |file: &dyn ReadFile| {
        let mut bytes = vec![0; (len - at) as usize];
        file.read_at(at, &mut bytes).map(|()| bytes)
    };
    Ok(end(one)? == end(other)?)
}

/// Copies a file durably. Until it is complete, it has another name.
fn copy(source: &dyn ReadFile, to: &dyn Medium, name: &str) -> Result<(), MediumError> {
    let partial = format!("{name}{PARTIAL}");
    match to.remove(&partial) {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    let mut file = to.create(&partial)?;
    let len = source.len()?;
    let mut bytes = vec![0; STEP.min(len as usize)];
    while file.len() < len {
        let at = file.len();
        let part = &mut bytes[..STEP.min((len - at) as usize)];
        source.read_at(at, part)?;
        file.append(part)?;
    }
    file.finish()?;
    to.rename(&partial, name)
}

/// The operations that replace tables and other objects by those of another state.
fn replacement(now: &State, other: &State, replaced: &[String], is_wanted: &dyn Fn(&str) -> bool) -> Commit {
    let mut commit = Commit::default();
    for table in now.tables.values().filter(|table| replaced.contains(&table.name)) {
        commit.push(Operation::DropTable { table: table.id });
    }
    // What belongs to something goes with it.
    for object in wanted_objects(now, is_wanted).into_iter().filter(|object| object.owner.is_none()) {
        commit.push(Operation::DropObject { object: object.id });
    }
    commit.extend(Commit::of_state(other));
    commit
}
