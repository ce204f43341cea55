//! Opening a tree, and checking it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::link::unseal;
use super::super::pool::{Pool, UnitKind, UnitState};
use super::super::{damaged, directory::Directory};
use super::{Entry, SPLITTING, Tree, TreeOptions, leaf};
use crate::error::Result;

impl Tree {
    /// Opens the tree with its root at `root`, and finishes a split that a crash interrupted. That is durable after the
    /// next fence, before which nothing may change. `units` are those of the owner; of these, the units of leaves that no link reaches are freed.
    ///
    /// # Errors
    /// A link or a leaf's header is damaged.
    pub fn open(pool: Arc<Pool>, owner: u64, root: u64, options: TreeOptions, units: &[UnitState]) -> Result<Tree> {
        let tree = Tree::empty(pool, owner, root, options)?;
        let units = units.iter().filter(|unit| unit.kind == UnitKind::Leaves).map(|unit| unit.unit);
        let units: Vec<u64> = units.collect();
        let possible: HashSet<u64> = units.iter().flat_map(|unit| tree.leaves_of(*unit)).collect();
        let mut leaves = Directory::default();
        let mut entries = 0;
        tree.walk(|leaf, low| {
            if !possible.contains(&leaf) {
                return Err(damaged(
                    tree.region(),
                    leaf,
                    format!("a link leads here, which is no leaf of table {owner}"),
                ));
            }
            leaves.insert(low, leaf);
            entries += tree.geometry.count(tree.region().words(), leaf);
            Ok(())
        })?;
        tree.entries.store(entries as u64, Ordering::Relaxed);
        let reached: HashSet<u64> = leaves.iter().map(|(_, leaf)| leaf).collect();
        let is_used = |unit: &u64| tree.leaves_of(*unit).any(|leaf| reached.contains(&leaf));
        let (used, unused): (Vec<u64>, Vec<u64>) = units.into_iter().partition(is_used);
        {
            let mut inner = tree.inner.write();
            inner.leaves = leaves;
            let free = used.iter().flat_map(|unit| tree.leaves_of(*unit)).filter(|leaf| !reached.contains(leaf));
            inner.free = free.collect();
            inner.free.reverse();
        }
        tree.finish_split(&reached)?;
        tree.pool.release(&unused);
        Ok(tree)
    }

    /// Calls `visit` with every leaf of the list and its smallest key.
    fn walk(&self, mut visit: impl FnMut(u64, Entry) -> Result<()>) -> Result<()> {
        let region = self.region();
        let words = region.words();
        let wrong = |offset: u64, reason: &str| damaged(region, offset, reason);
        let (mut link, mut before) = (self.root, None);
        loop {
            let leaf = unseal(words.load(link)).ok_or_else(|| wrong(link, "a damaged link to a leaf"))?;
            if leaf == 0 {
                return if before.is_some() { Ok(()) } else { Err(wrong(link, "a tree without a leaf")) };
            }
            let inside = leaf % 64 == 0 && leaf + self.geometry.bytes <= words.len();
            if !inside || !leaf::is_sound(words, self.owner, leaf) {
                return Err(wrong(link, &format!("the link leads to byte {leaf}, where no leaf of this tree is")));
            }
            let low = leaf::low(words, leaf);
            // Ascending keys also make the list finite.
            if before.map_or(low != (0, 0), |before| low <= before) {
                return Err(wrong(leaf, "a leaf whose smallest key is not above that of the leaf before it"));
            }
            region.touch(leaf, 64);
            visit(leaf, low)?;
            (link, before) = (leaf + leaf::NEXT, Some(low));
        }
    }

    /// Clears what a split left in the lower leaf.
    fn finish_split(&self, reached: &HashSet<u64>) -> Result<()> {
        let region = self.region();
        let word = self.root + SPLITTING;
        let Some(leaf) = unseal(region.words().load(word)) else {
            return Err(damaged(region, word, "a damaged link to a leaf"));
        };
        if reached.contains(&leaf)
            && let Some(next) = unseal(region.words().load(leaf + leaf::NEXT)).filter(|next| *next != 0)
        {
            let before = self.geometry.count(region.words(), leaf);
            self.clear_from(leaf, leaf::low(region.words(), next));
            let cleared = before - self.geometry.count(region.words(), leaf);
            self.entries.fetch_sub(cleared as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads everything: whether links, keys, bitmaps and fingerprints agree. Returns the entries in order.
    ///
    /// # Errors
    /// Names what is damaged.
    pub fn check(&self) -> Result<Vec<Entry>> {
        let (region, geometry) = (self.region(), self.geometry);
        let words = region.words();
        let inner = self.inner.read();
        let mut found = vec![];
        let mut leaves = vec![];
        self.walk(|leaf, low| {
            leaves.push((low, leaf));
            Ok(())
        })?;
        if !inner.leaves.iter().eq(leaves.iter().copied()) {
            return Err(damaged(region, self.root, "the list of leaves is not what the directory has"));
        }
        for (at, (low, leaf)) in leaves.iter().enumerate() {
            let mut entries = vec![];
            for slot in geometry.used(words, *leaf) {
                let wrong = |reason: &str| Err(damaged(region, geometry.entry(*leaf, slot), reason));
                if slot >= geometry.slots {
                    return wrong("a bit of the bitmap without a slot");
                }
                let entry = geometry.key(words, *leaf, slot);
                if entry < *low || leaves.get(at + 1).is_some_and(|next| entry >= next.0) {
                    return wrong("an entry that belongs to another leaf");
                }
                if words.load_narrow(geometry.fingerprint(*leaf, slot), 1) != u64::from(leaf::fingerprint(entry.0)) {
                    return wrong("a fingerprint that is not that of its entry");
                }
                entries.push(entry);
            }
            entries.sort_unstable();
            if let Some(twice) = entries.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(damaged(region, *leaf, format!("the entry {:?} is there twice", twice[0])));
            }
            found.extend(entries);
        }
        if found.len() as u64 != self.len() {
            return Err(damaged(
                region,
                self.root,
                format!("{} entries, and {} were counted", found.len(), self.len()),
            ));
        }
        Ok(found)
    }
}
