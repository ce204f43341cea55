//! Earlier versions of a database, which queries can read for as long as the user wants.
//!
//! A version is the state after one commit. This process keeps those that it has seen since a retention was set, and
//! pins them, so that nobody removes their files.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::Snapshot;
use crate::error::{Result, StoreError};

/// The versions that are kept.
#[derive(Debug, Default)]
pub struct History(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Zero: no version is kept.
    retention: Duration,
    /// In the order of their commits.
    versions: VecDeque<Version>,
}

#[derive(Debug, Clone)]
struct Version {
    /// When this process saw the commit.
    since: SystemTime,
    snapshot: Arc<Snapshot>,
}

impl Kept {
    /// Forgets the versions that were replaced by another before the retention began.
    fn prune(&mut self, now: SystemTime) {
        let begin = now.checked_sub(self.retention).unwrap_or(SystemTime::UNIX_EPOCH);
        while self.versions.get(1).is_some_and(|next| next.since < begin) {
            self.versions.pop_front();
        }
        if self.retention.is_zero() {
            self.versions.clear();
        }
    }
}

impl History {
    pub fn is_kept(&self) -> bool {
        !self.0.lock().retention.is_zero()
    }

    pub fn retention(&self) -> Duration {
        self.0.lock().retention
    }

    pub fn set_retention(&self, retention: Duration) {
        let mut kept = self.0.lock();
        kept.retention = retention;
        kept.prune(SystemTime::now());
    }

    /// Adds the newest version.
    pub fn note(&self, snapshot: Snapshot) {
        let (mut kept, since) = (self.0.lock(), SystemTime::now());
        if kept.versions.back().is_none_or(|last| last.snapshot.sequence() < snapshot.sequence()) {
            kept.versions.push_back(Version { since, snapshot: Arc::new(snapshot) });
        }
        kept.prune(since);
    }

    /// Forgets what is older than the retention.
    pub fn prune(&self) {
        self.0.lock().prune(SystemTime::now());
    }

    /// The version of a commit, if it is kept.
    pub fn version(&self, sequence: u64) -> Option<Arc<Snapshot>> {
        self.find(|kept| kept.snapshot.sequence() == sequence)
    }

    /// The commits that are kept, each with the time since which it was the newest.
    pub fn versions(&self) -> Vec<(u64, SystemTime)> {
        self.prune();
        self.0.lock().versions.iter().map(|version| (version.snapshot.sequence(), version.since)).collect()
    }

    fn find(&self, is_it: impl Fn(&Version) -> bool) -> Option<Arc<Snapshot>> {
        self.prune();
        self.0.lock().versions.iter().rev().find(|version| is_it(version)).map(|version| version.snapshot.clone())
    }

    fn gone(&self, what: &str) -> StoreError {
        let kept = match self.versions().as_slice() {
            [] => "no version is kept".to_owned(),
            [(first, _), .., (last, _)] => format!("the versions from {first} to {last} are kept"),
            [(only, _)] => format!("only version {only} is kept"),
        };
        StoreError::invalid(format!("{what} is gone: {kept}"))
    }
}

impl Snapshot {
    /// The commits that this snapshot's reader can go back to, each with the time since which it was the newest.
    pub fn versions(&self) -> Vec<(u64, SystemTime)> {
        let versions = self.history.as_ref().map_or(vec![], |history| history.versions());
        versions.into_iter().filter(|(version, _)| *version <= self.sequence()).collect()
    }

    /// The snapshot of an earlier commit.
    ///
    /// # Errors
    /// The version is not kept, or is later than this snapshot.
    pub fn at_version(self: &Arc<Self>, version: u64) -> Result<Arc<Snapshot>> {
        if version == self.sequence() && !self.has_own_changes() {
            return Ok(self.clone());
        }
        if version > self.sequence() {
            let last = self.sequence();
            return Err(StoreError::invalid(format!("there is no version {version} yet; the last one is {last}")));
        }
        let history = self.history.clone().unwrap_or_default();
        history.version(version).ok_or_else(|| history.gone(&format!("version {version}")))
    }

    /// The snapshot that was the newest at a time. `shown` is that time in messages.
    ///
    /// # Errors
    /// The version is not kept.
    pub fn at_time(&self, time: SystemTime, shown: &str) -> Result<Arc<Snapshot>> {
        let history = self.history.clone().unwrap_or_default();
        let found = history.find(|kept| kept.since <= time && kept.snapshot.sequence() <= self.sequence());
        found.ok_or_else(|| history.gone(&format!("the version of {shown}")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::store::{Definition, ObjectKind, Store, StoreOptions};

    use super::*;

    fn commit(store: &Store, view: &str) -> u64 {
        let mut transaction = store.write().unwrap();
        let definition = Definition::View { query: "SELECT 1".into() };
        transaction.create_object(view, BTreeSet::new(), definition).unwrap();
        transaction.commit().unwrap()
    }

    fn views(snapshot: &Snapshot) -> Vec<&String> {
        snapshot.objects(ObjectKind::View).map(|view| &view.name).collect()
    }

    #[test]
    fn versions_are_found_while_they_are_kept() {
        let store = Store::in_memory(StoreOptions::default()).unwrap();
        let first = commit(&store, "a");
        assert!(
            store.snapshot().unwrap().at_version(first - 1).unwrap_err().to_string().contains("no version is kept")
        );
        store.set_retention(Duration::from_secs(1000)).unwrap();
        let second = commit(&store, "b");
        let between = SystemTime::now();
        let third = commit(&store, "c");
        let now = store.snapshot().unwrap();
        assert_eq!(now.versions().iter().map(|(version, _)| *version).collect::<Vec<_>>(), [first, second, third]);
        assert_eq!(views(&now.at_version(first).unwrap()), ["a"]);
        assert_eq!(views(&now.at_version(second).unwrap()), ["a", "b"]);
        assert_eq!(views(&now.at_time(between, "").unwrap()), ["a", "b"]);
        assert_eq!(views(&now.at_time(SystemTime::now(), "").unwrap()), ["a", "b", "c"]);
        assert!(now.at_version(third + 1).unwrap_err().to_string().contains("the last one is"));
        assert!(now.at_time(SystemTime::UNIX_EPOCH, "1970").unwrap_err().to_string().contains("the version of 1970"));
        // An earlier snapshot does not see later versions.
        assert!(now.at_version(second).unwrap().versions().is_empty());
        store.set_retention(Duration::ZERO).unwrap();
        assert!(now.at_version(second).is_err() && now.at_version(third).is_ok());
    }

    #[test]
    fn a_version_ends_with_the_one_after_it() {
        let store = Store::in_memory(StoreOptions::default()).unwrap();
        commit(&store, "a");
        store.set_retention(Duration::from_millis(50)).unwrap();
        let kept = commit(&store, "b");
        std::thread::sleep(Duration::from_millis(120));
        // It still is the newest.
        let now = store.snapshot().unwrap();
        assert_eq!(now.versions().iter().map(|(version, _)| *version).collect::<Vec<_>>(), [kept]);
        commit(&store, "c");
        std::thread::sleep(Duration::from_millis(120));
        assert!(store.snapshot().unwrap().at_version(kept).unwrap_err().to_string().contains("is gone"));
    }
}
