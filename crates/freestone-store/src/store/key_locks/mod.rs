//! Locks of keys: which keys open transactions have added or removed, and to which their rows refer. And what a
//! transaction has changed whose keys are not checked yet.

pub mod hashes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use self::hashes::KeyHashes;
use super::locks::Level;
use crate::table::SegmentEntry;

/// The segments whose rows have new keys, by key.
pub type AddedKeys = BTreeMap<KeyId, BTreeSet<u64>>;
/// The segments whose rows have new references, by table and foreign key.
pub type AddedReferences = BTreeMap<(u64, usize), BTreeSet<u64>>;
/// Removed rows, by table: segments of which all other rows count as deleted.
pub type RemovedRows = BTreeMap<u64, Vec<SegmentEntry>>;

/// A key of a table: the table's id, and the position of the key among those that it enforces.
pub type KeyId = (u64, usize);

/// How a transaction uses keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUse {
    /// It adds or removes rows with these keys.
    Changed,
    /// It adds rows that refer to these keys.
    Referenced,
}

/// Some keys.
#[derive(Debug, Clone)]
pub enum Keys {
    /// More than are kept in memory.
    All,
    Some(Arc<KeyHashes>),
}

impl Keys {
    pub fn is_empty(&self) -> bool {
        matches!(self, Keys::Some(keys) if keys.is_empty())
    }

    fn intersect(&self, other: &Keys) -> bool {
        match (self, other) {
            (Keys::Some(a), Keys::Some(b)) => a.intersects(b),
            (Keys::All, _) | (_, Keys::All) => true,
        }
    }
}

/// The locks that open transactions hold.
#[derive(Debug, Default)]
pub struct KeyLocks(HashMap<KeyId, Vec<Held>>);

#[derive(Debug)]
struct Held {
    holder: u64,
    level: Level,
    how: KeyUse,
    keys: Keys,
}

impl KeyLocks {
    /// Who else uses one of these keys in a way that excludes this use.
    pub fn blockers(&self, me: u64, key: KeyId, how: KeyUse, keys: &Keys) -> BTreeSet<u64> {
        let excludes = |held: &&Held| {
            held.holder != me && (held.how == KeyUse::Changed || how == KeyUse::Changed) && held.keys.intersect(keys)
        };
        self.0.get(&key).into_iter().flatten().filter(excludes).map(|held| held.holder).collect()
    }

    /// Adds a lock of a transaction, at its level.
    pub fn add(&mut self, (me, level): (u64, Level), key: KeyId, how: KeyUse, mut keys: Keys) {
        let held = self.0.entry(key).or_default();
        // Sets of similar size become one, so that there are few, however many statements add keys.
        let is_same = |held: &Held| (held.holder, held.level, held.how) == (me, level, how);
        while let Some(at) = held.iter().rposition(is_same) {
            keys = match (&held[at].keys, &keys) {
                (Keys::All, _) | (_, Keys::All) => Keys::All,
                (Keys::Some(old), Keys::Some(new)) if old.len() <= 2 * new.len() => {
                    Keys::Some(Arc::new(old.joined(new)))
                }
                _ => break,
            };
            held.remove(at);
        }
        held.push(Held { holder: me, level, how, keys });
    }

    /// Frees the locks of a transaction from a level on.
    pub fn free(&mut self, holder: u64, from: Level) {
        self.0.retain(|_, held| {
            held.retain(|held| held.holder != holder || held.level < from);
            !held.is_empty()
        });
    }

    /// Makes the locks of a transaction from a level on those of the level `below`.
    pub fn join(&mut self, holder: u64, from: Level, below: Level) {
        let keys: Vec<KeyId> = self.0.keys().copied().collect();
        for key in keys {
            let is_joined = |held: &mut Held| held.holder == holder && held.level >= from;
            let joined = self.0.get_mut(&key).map(|held| held.extract_if(.., is_joined).collect::<Vec<_>>());
            for held in joined.unwrap_or_default() {
                self.add((holder, below), key, held.how, held.keys);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(hashes: &[u64]) -> Keys {
        Keys::Some(Arc::new(KeyHashes::of_sorted(hashes.to_vec())))
    }

    #[test]
    fn equal_keys_exclude_each_other_unless_both_are_referenced() {
        let mut locks = KeyLocks::default();
        let key = (7, 0);
        locks.add((1, 0), key, KeyUse::Changed, keys(&[1, 5, 9]));
        locks.add((2, 0), key, KeyUse::Referenced, keys(&[2, 3]));
        let of = |locks: &KeyLocks, me, how, wanted: Keys| {
            locks.blockers(me, key, how, &wanted).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of(&locks, 3, KeyUse::Changed, keys(&[3, 9])), [1, 2]);
        assert_eq!(of(&locks, 3, KeyUse::Referenced, keys(&[3, 9])), [1]);
        assert_eq!(of(&locks, 3, KeyUse::Changed, keys(&[4])), [0; 0]);
        assert_eq!(of(&locks, 1, KeyUse::Changed, keys(&[1])), [0; 0]);
        assert_eq!(of(&locks, 3, KeyUse::Referenced, Keys::All), [1]);
        assert!(locks.blockers(3, (7, 1), KeyUse::Changed, &Keys::All).is_empty());
        locks.free(1, 0);
        assert_eq!(of(&locks, 3, KeyUse::Changed, Keys::All), [2]);
    }

    #[test]
    fn many_small_locks_become_few() {
        let mut locks = KeyLocks::default();
        (0..1000).for_each(|hash| locks.add((1, 0), (7, 0), KeyUse::Changed, keys(&[hash])));
        assert!(locks.0[&(7, 0)].len() <= 11);
        assert!((0..1000).all(|hash| !locks.blockers(2, (7, 0), KeyUse::Changed, &keys(&[hash])).is_empty()));
        assert!(locks.blockers(2, (7, 0), KeyUse::Changed, &keys(&[1000])).is_empty());
    }
}
