//! A sorted map in memory from keys to offsets: the inner nodes of a tree, and the blocks of a table. Two levels, so that
//! an insertion moves few entries.

/// A key: a number and a second one that orders equal numbers.
pub type Key = (u64, u64);

/// The entries of a chunk, at most.
const CHUNK_ENTRIES: usize = 512;

/// A sorted map.
#[derive(Debug, Default)]
pub struct Directory {
    /// The first key of each chunk.
    firsts: Vec<Key>,
    /// None is empty.
    chunks: Vec<Chunk>,
}

#[derive(Debug, Default)]
struct Chunk {
    keys: Vec<Key>,
    offsets: Vec<u64>,
}

/// The position of an entry. Valid until the map changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    chunk: usize,
    entry: usize,
}

impl Directory {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.keys.len()).sum()
    }

    /// The entry with the largest key of at most `key`.
    pub fn floor(&self, key: Key) -> Option<Position> {
        let chunk = self.firsts.partition_point(|first| *first <= key).checked_sub(1)?;
        let entry = self.chunks[chunk].keys.partition_point(|k| *k <= key).checked_sub(1)?;
        Some(Position { chunk, entry })
    }

    /// The first entry.
    pub fn first(&self) -> Option<Position> {
        (!self.chunks.is_empty()).then_some(Position { chunk: 0, entry: 0 })
    }

    /// The entry behind another.
    pub fn next(&self, at: Position) -> Option<Position> {
        if at.entry + 1 < self.chunks[at.chunk].keys.len() {
            return Some(Position { entry: at.entry + 1, ..at });
        }
        (at.chunk + 1 < self.chunks.len()).then_some(Position { chunk: at.chunk + 1, entry: 0 })
    }

    /// The entry before another.
    pub fn previous(&self, at: Position) -> Option<Position> {
        if let Some(entry) = at.entry.checked_sub(1) {
            return Some(Position { entry, ..at });
        }
        let chunk = at.chunk.checked_sub(1)?;
        Some(Position { chunk, entry: self.chunks[chunk].keys.len() - 1 })
    }

    /// The key and the offset of an entry.
    pub fn get(&self, at: Position) -> (Key, u64) {
        let chunk = &self.chunks[at.chunk];
        (chunk.keys[at.entry], chunk.offsets[at.entry])
    }

    /// The key behind an entry's, if it is not the last.
    pub fn next_key(&self, at: Position) -> Option<Key> {
        self.next(at).map(|next| self.get(next).0)
    }

    /// The number of entries from one position to another, which is not before it.
    pub fn distance(&self, from: Position, to: Position) -> usize {
        if from.chunk == to.chunk {
            return to.entry.saturating_sub(from.entry);
        }
        let between = self.chunks[from.chunk + 1..to.chunk].iter().map(|chunk| chunk.keys.len()).sum::<usize>();
        self.chunks[from.chunk].keys.len() - from.entry + between + to.entry
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, u64)> + '_ {
        self.chunks.iter().flat_map(|chunk| chunk.keys.iter().copied().zip(chunk.offsets.iter().copied()))
    }

    /// Adds an entry, whose key is new.
    pub fn insert(&mut self, key: Key, offset: u64) {
        let at = self.firsts.partition_point(|first| *first <= key).saturating_sub(1);
        if self.chunks.is_empty() {
            self.chunks.push(Chunk::default());
            self.firsts.push(key);
        }
        let chunk = &mut self.chunks[at];
        let entry = chunk.keys.partition_point(|k| *k < key);
        chunk.keys.insert(entry, key);
        chunk.offsets.insert(entry, offset);
        self.firsts[at] = chunk.keys[0];
        if chunk.keys.len() > CHUNK_ENTRIES {
            // Keys that ascend fill their chunks.
            let cut = if entry + 1 == chunk.keys.len() { CHUNK_ENTRIES } else { CHUNK_ENTRIES / 2 };
            let upper = Chunk { keys: chunk.keys.split_off(cut), offsets: chunk.offsets.split_off(cut) };
            self.firsts.insert(at + 1, upper.keys[0]);
            self.chunks.insert(at + 1, upper);
        }
    }

    /// Removes the entry at a position.
    pub fn remove(&mut self, at: Position) {
        let chunk = &mut self.chunks[at.chunk];
        chunk.keys.remove(at.entry);
        chunk.offsets.remove(at.entry);
        match chunk.keys.first() {
            Some(first) => self.firsts[at.chunk] = *first,
            None => {
                self.firsts.remove(at.chunk);
                self.chunks.remove(at.chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_directory_is_a_sorted_map(
            keys in prop::collection::vec((0u64..300, 0u64..10), 1..3000), probes in prop::collection::vec((0u64..310, 0u64..10), 50),
        ) {
            let (mut directory, mut model) = (Directory::default(), BTreeMap::new());
            for (at, key) in keys.iter().enumerate() {
                // A third of the keys that come again are removed.
                match model.contains_key(key) {
                    true if at % 3 == 0 => {
                        model.remove(key);
                        directory.remove(directory.floor(*key).expect("it is there"));
                    }
                    true => {}
                    false => {
                        model.insert(*key, at as u64);
                        directory.insert(*key, at as u64);
                    }
                }
            }
            let entries: Vec<_> = directory.iter().collect();
            prop_assert_eq!(&entries, &model.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>());
            prop_assert_eq!(directory.len(), model.len());
            for probe in probes {
                let found = directory.floor(probe);
                let expected = model.range(..=probe).next_back();
                prop_assert_eq!(found.map(|at| directory.get(at)), expected.map(|(k, v)| (*k, *v)));
                if let (Some(at), Some(first)) = (found, directory.first()) {
                    prop_assert_eq!(directory.next_key(at), model.range((probe.0, probe.1 + 1)..).next().map(|e| *e.0));
                    prop_assert_eq!(directory.distance(first, at), model.range(..=probe).count() - 1);
                    let before = directory.previous(at).map(|before| directory.get(before).0);
                    prop_assert_eq!(before, model.range(..directory.get(at).0).next_back().map(|e| *e.0));
                }
            }
        }
    }
}
