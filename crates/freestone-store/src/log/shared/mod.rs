//! The log of a database that several processes, on any machines, write at the same time: one object per commit.
//!
//! ```text
//! FREESTONE                      what the database is: its number and its retention
//! log/00000000000000000008       commit 8, made by whoever was first; it never changes
//! folds/00000000000000000006     the state after commit 6
//! leases/00000003                a process that is there, and the oldest commit that it needs
//! segments/0000000000030001.seg  rows; the first digits of the number are those of the process that wrote them
//! ```
//!
//! Nobody locks anything. Whoever wants to commit makes the object of the next sequence, which a store allows only one of
//! several to do ([`create_surely`]). The others read what was committed, look for conflicts, and try the next sequence.
//! Each object has the hash of the previous one, so the commits are one chain.
//!
//! # What is removed, and when
//! Objects of the log are removed once a later state is folded and they are older than the retention. So an object that
//! is missing proves that its commit does not exist only to a process that knows, from less than a retention ago, that it
//! is at the end of the log. A process that has not looked at the log for half the retention forgets its state and begins
//! with the newest fold: otherwise one that slept could commit into a gap that was collected ([`SharedLog::append`]). The
//! times of objects are by the store's clock; a process measures only how long ago something was.
//!
//! Leases protect files. A process renews its lease eight times per retention. VACUUM keeps what a live lease needs: the
//! files of the oldest snapshot that it names, and all files of its own number that no commit names yet. A process that
//! could not renew its lease for half the retention gives its transactions up, and gets another number ([`leases`]).

mod append;
mod collect;
mod database;
mod leases;
mod moment;
mod object;
mod probe;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::scan::Record;
use super::{LogError, Refresh};
use crate::media::objects::Objects;

pub use append::Appended;
pub use collect::{Ages, RaisedId};
pub use database::{DATABASE, Description};
pub use leases::{ID_BITS, Lease};
pub use moment::Moment;
pub use object::Hash;
pub use probe::{Probe, ProbeReport, probe};

use object::{Kind, Object};

const LOG: &str = "log";
const FOLDS: &str = "folds";
/// So many commits are read one after the other before the rest is listed and read together.
const ONE_BY_ONE: usize = 4;
/// So often reading begins again if objects were collected meanwhile.
const ATTEMPTS: usize = 3;

/// The name of a commit's object.
fn commit_name(sequence: u64) -> String {
    format!("{LOG}/{sequence:020}")
}

/// The name of the object with the state after a commit.
fn fold_name(sequence: u64) -> String {
    format!("{FOLDS}/{sequence:020}")
}

/// The sequence in the name of a commit or a fold.
fn sequence_of(name: &str) -> Option<u64> {
    let (_, digits) = name.rsplit_once('/')?;
    if digits.len() == 20 { digits.parse().ok() } else { None }
}

/// The end of the log, as this process knows it.
#[derive(Debug, Clone)]
pub struct Position {
    /// The last commit; 0 before the first.
    pub sequence: u64,
    /// The hash of its object.
    pub hash: Hash,
    /// When it was known that there is no later one.
    pub seen: Moment,
    /// Bytes of the commits since the last fold, and of that fold.
    pub unfolded: u64,
    /// Bytes of the fold.
    pub fold_len: u64,
    /// The number of commits since the last fold.
    pub commits: u64,
}

/// The log of a database, as one process reads and writes it.
#[derive(Debug)]
pub struct SharedLog {
    objects: Arc<dyn Objects>,
    database: Description,
    position: Mutex<Option<Position>>,
    /// The claim on numbers, and on files that others may not remove yet.
    pub lease: Mutex<Option<Lease>>,
    /// Whether this process has found out that the store is fit for being written.
    is_probed: Mutex<bool>,
}

impl SharedLog {
    /// Opens the log of the database at a place. With `create`, the database is made if the place is empty.
    ///
    /// # Errors
    /// There is no database, or one of a newer format; the place has something else; the store cannot be read; or it is
    /// not fit to be written.
    pub fn open(objects: Arc<dyn Objects>, create: Option<Duration>) -> Result<SharedLog, LogError> {
        let mut is_probed = false;
        let database = match (Description::read(objects.as_ref())?, create) {
            (Some(found), _) => found,
            (None, None) => return Err(LogError::NoDatabase { place: objects.place() }),
            (None, Some(retention)) => {
                database::check_vacant(objects.as_ref())?;
                probe(objects.as_ref(), Probe::SHORT)?;
                is_probed = true;
                Description::create(objects.as_ref(), retention)?
            }
        };
        Ok(SharedLog {
            objects,
            database,
            position: Mutex::default(),
            lease: Mutex::default(),
            is_probed: Mutex::new(is_probed),
        })
    }

    /// The objects of the database.
    pub fn objects(&self) -> &Arc<dyn Objects> {
        &self.objects
    }

    /// The number of the database.
    pub fn database(&self) -> u128 {
        self.database.number
    }

    /// How long what is not needed any more is kept at least.
    pub fn retention(&self) -> Duration {
        self.database.retention
    }

    /// After this time without news, what this process knows may be wrong.
    pub fn patience(&self) -> Duration {
        self.database.retention / 2
    }

    /// The end of the log, as of the last refresh; `None` before the first.
    pub fn position(&self) -> Option<Position> {
        self.position.lock().clone()
    }

    /// Lets the next refresh begin with the newest fold.
    pub fn restart(&self) {
        *self.position.lock() = None;
    }

    /// Passes over a commit of this process, which knows it, unless it has been read meanwhile. Returns whether it was not.
    pub fn pass(&self, to: &Position) -> bool {
        let mut position = self.position.lock();
        let is_next = position.as_ref().is_some_and(|known| known.sequence + 1 == to.sequence);
        if is_next {
            *position = Some(to.clone());
        }
        is_next
    }

    /// Whether the end of the log was looked for since a time.
    pub fn has_looked_since(&self, asked: &Moment) -> bool {
        self.position.lock().as_ref().is_some_and(|known| known.seen.is_after(asked) && !self.is_stale(known))
    }

    fn is_stale(&self, position: &Position) -> bool {
        position.seen.elapsed() >= self.patience()
    }

    /// Checks that the store is fit for being written, once per process.
    ///
    /// # Errors
    /// It is not, or cannot be written.
    pub fn ensure_probed(&self) -> Result<(), LogError> {
        let mut is_probed = self.is_probed.lock();
        if !*is_probed {
            probe(self.objects.as_ref(), Probe::SHORT)?;
            *is_probed = true;
        }
        Ok(())
    }

    /// Reads the commits since the last refresh, with one request if there are none.
    ///
    /// # Errors
    /// The log is damaged or cannot be read. Then nothing has changed, and a refresh can be tried again.
    pub fn refresh(&self) -> Result<Refresh, LogError> {
        let known = self.position.lock().clone().filter(|known| !self.is_stale(known));
        let (refresh, position) = match known {
            Some(mut position) => {
                let mut records = vec![];
                self.follow(&mut position, &mut records)?;
                (Refresh { restart: false, records }, position)
            }
            None => {
                let (position, records) = self.begin()?;
                (Refresh { restart: true, records }, position)
            }
        };
        *self.position.lock() = Some(position);
        Ok(refresh)
    }

    /// Reads the commits behind a position.
    fn follow(&self, position: &mut Position, records: &mut Vec<Record>) -> Result<(), LogError> {
        for at in 0.. {
            if at == ONE_BY_ONE {
                self.follow_together(position, u64::MAX, records)?;
            }
            let asked = Moment::now();
            let name = commit_name(position.sequence + 1);
            match self.objects.get(&name)? {
                Some(bytes) => records.push(self.step(position, &name, &bytes)?),
                None => {
                    position.seen = asked;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Lists the commits behind a position up to `last`, and reads them at the same time.
    fn follow_together(&self, position: &mut Position, last: u64, records: &mut Vec<Record>) -> Result<(), LogError> {
        let listed = self.objects.list(LOG, Some(&commit_name(position.sequence)), usize::MAX)?;
        let next = position.sequence.saturating_add(1)..=last;
        let numbered = listed.iter().zip(next).take_while(|(object, at)| sequence_of(&object.name) == Some(*at));
        let names: Vec<String> = numbered.map(|(object, _)| object.name.clone()).collect();
        for (name, bytes) in names.iter().zip(self.objects.get_all(&names)) {
            let Some(bytes) = bytes? else { break };
            records.push(self.step(position, name, &bytes)?);
        }
        Ok(())
    }

    /// Takes the next commit.
    fn step(&self, position: &mut Position, name: &str, bytes: &[u8]) -> Result<Record, LogError> {
        let object = Object::decode(name, bytes, Kind::Commit, self.database.number, position.sequence + 1)?;
        if object.previous != position.hash {
            let reason = format!("it does not follow commit {}, which was read before", position.sequence);
            return Err(LogError::damaged(name, 0, reason));
        }
        position.sequence += 1;
        position.hash = Hash::of(bytes);
        position.unfolded += bytes.len() as u64;
        position.commits += 1;
        Ok(Record { sequence: position.sequence, body: object.body, is_base: false })
    }

    /// Reads the newest fold and what follows it.
    fn begin(&self) -> Result<(Position, Vec<Record>), LogError> {
        let mut missing = LogError::NoDatabase { place: self.objects.place() };
        for _ in 0..ATTEMPTS {
            let fold = self.newest_fold(u64::MAX)?;
            let Some((mut position, mut records)) = self.behind_fold(fold)? else {
                missing = LogError::damaged(&fold_name(fold.unwrap_or(0)), 0, "it was listed, but is not there");
                continue;
            };
            self.follow_together(&mut position, u64::MAX, &mut records)?;
            self.follow(&mut position, &mut records)?;
            // If later commits are there, this one was collected while it was looked for, since there is a newer fold.
            let later = self.objects.list(LOG, Some(&commit_name(position.sequence + 1)), 1)?;
            match later.first() {
                Some(later) if self.objects.get(&commit_name(position.sequence + 1))?.is_none() => {
                    let reason = format!("commit {} before it is missing", position.sequence + 1);
                    missing = LogError::damaged(&later.name, 0, reason);
                }
                _ => return Ok((position, records)),
            }
        }
        Err(missing)
    }

    /// The records that make the state after a commit, which is not later than the last one that was read. `None` if it is
    /// not kept any more: it was folded, and is older than the retention.
    ///
    /// # Errors
    /// The log is damaged or cannot be read.
    pub fn records_until(&self, sequence: u64) -> Result<Option<Vec<Record>>, LogError> {
        let fold = self.newest_fold(sequence)?;
        let Some((mut position, mut records)) = self.behind_fold(fold)? else { return Ok(None) };
        self.follow_together(&mut position, sequence, &mut records)?;
        Ok((position.sequence == sequence).then_some(records))
    }

    /// Begins with a fold, or before the first commit. `None` if the fold is not there any more.
    fn behind_fold(&self, fold: Option<u64>) -> Result<Option<(Position, Vec<Record>)>, LogError> {
        let mut position =
            Position { sequence: 0, hash: Hash::NONE, seen: Moment::now(), unfolded: 0, fold_len: 0, commits: 0 };
        let Some(fold) = fold else { return Ok(Some((position, vec![]))) };
        let name = fold_name(fold);
        let Some(bytes) = self.objects.get(&name)? else { return Ok(None) };
        let object = Object::decode(&name, &bytes, Kind::Fold, self.database.number, fold)?;
        (position.sequence, position.hash) = (fold, object.previous);
        position.fold_len = bytes.len() as u64;
        Ok(Some((position, vec![Record { sequence: fold, body: object.body, is_base: true }])))
    }

    /// The newest fold that is not later than a commit.
    fn newest_fold(&self, last: u64) -> Result<Option<u64>, LogError> {
        let folds = self.objects.list(FOLDS, None, usize::MAX)?;
        Ok(folds.iter().filter_map(|object| sequence_of(&object.name)).filter(|fold| *fold <= last).max())
    }
}
