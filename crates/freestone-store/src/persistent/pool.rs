//! A pool: a region of persistent memory, cut into units of one size. `docs/format/pool.md` has its bytes.
//!
//! A unit's own header says whose it is, so no list of free units can disagree with what is used: opening reads the
//! headers. A unit that no structure of its owner reaches is free, too, so a crash between taking a unit and linking it
//! loses nothing.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::damaged;
use super::link::{SEALED_MAX, seal, unseal};
use crate::error::{Result, StoreError};
use crate::media::region::Region;
use crate::page::checksum;

const MAGIC: &[u8; 8] = b"FPOOL001";
const UNIT_MAGIC: &[u8; 4] = b"FPU1";
const VERSION: u64 = 1;
/// Bytes of a unit's header.
pub const HEADER_BYTES: u64 = 64;
/// The units that a pool grows by, at least.
const EXTENT_UNITS: u64 = 16;

/// Offsets in the first unit.
const SIZES: u64 = 8;
const DATABASE: u64 = 16;
const CHECK: u64 = 32;
const UNITS: u64 = 40;
/// The last commit of the log that has changed the pool, sealed.
const LAST: u64 = 48;

/// Offsets in a unit.
const OWNER: u64 = 8;
const INDEX: u64 = 16;
const UNIT_CHECK: u64 = 24;
/// The link to the next unit of the same kind, which may change.
pub const NEXT: u64 = 32;
const FIRST: u64 = 40;
const SECOND: u64 = 48;
/// A word of the unit's owner, which the header's checksum does not cover: a block's checksum.
pub const OWN: u64 = 56;

/// What a unit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum UnitKind {
    /// The head of a table.
    Table = 1,
    /// Rows.
    Block = 2,
    /// Leaves of a tree.
    Leaves = 3,
    /// A table's description.
    Description = 4,
    /// More room for a table's redo slot.
    Redo = 5,
}

impl UnitKind {
    fn of(id: u8) -> Option<UnitKind> {
        use UnitKind::*;
        [Table, Block, Leaves, Description, Redo].into_iter().find(|kind| *kind as u8 == id)
    }
}

/// A used unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitState {
    /// Its number, which is its offset in units.
    pub unit: u64,
    /// What it holds.
    pub kind: UnitKind,
    /// The table to which it belongs.
    pub owner: u64,
    /// Two numbers of the kind.
    pub values: (u64, u64),
}

/// The properties of a new pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolOptions {
    /// Bytes of a unit: a power of two from 4 KiB to 1 MiB.
    pub unit_bytes: u64,
    /// The database to which it belongs.
    pub database: u128,
}

/// A pool of units.
#[derive(Debug)]
pub struct Pool {
    region: Arc<dyn Region>,
    unit_bytes: u64,
    database: u128,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    units: u64,
    /// Free units, the lowest last.
    free: Vec<u64>,
    /// The used units that opening found, until their table takes them.
    found: Vec<UnitState>,
    damaged: Vec<(u64, String)>,
    /// Units that are free for this process, but that snapshots of other processes may have; `None` if none has any.
    held_back: Option<Vec<u64>>,
}

impl Pool {
    /// Makes a pool of an empty region.
    ///
    /// # Errors
    /// The region is smaller than two units, or the options are not valid.
    pub fn create(region: Arc<dyn Region>, options: PoolOptions) -> Result<Pool> {
        let PoolOptions { unit_bytes, database } = options;
        if !unit_bytes.is_power_of_two() || !(4096..=1 << 20).contains(&unit_bytes) {
            return Err(StoreError::invalid(format!(
                "units of {unit_bytes} bytes are not possible: the size is a power of two from 4096 to 1048576"
            )));
        }
        let units = region.len() / unit_bytes;
        if units < 2 {
            return Err(StoreError::invalid(format!(
                "a pool needs two units of {unit_bytes} bytes, and {} has {} bytes",
                region.place(),
                region.len()
            )));
        }
        region.store(SIZES, VERSION | unit_bytes << 32);
        region.store(DATABASE, database as u64);
        region.store(DATABASE + 8, (database >> 64) as u64);
        region.store(UNITS, seal(units));
        let mut start = [0; 32];
        start[..8].copy_from_slice(MAGIC);
        region.words().read(8, &mut start[8..]);
        region.store(CHECK, checksum(&start).into());
        // The magic number comes last: without it, there is no pool. All are in one line, and become durable in order.
        region.store(0, u64::from_le_bytes(*MAGIC));
        region.flush(0, HEADER_BYTES);
        region.fence();
        let state = State { units, free: (1..units).rev().collect(), ..State::default() };
        Ok(Pool { region, unit_bytes, database, state: Mutex::new(state) })
    }

    /// Opens a pool. Units whose owner has no table are free; with damaged units, which may be tables, nothing is freed.
    ///
    /// # Errors
    /// The region is no pool, of another version or database, or cut short.
    pub fn open(region: Arc<dyn Region>, database: Option<u128>) -> Result<Pool> {
        let (unit_bytes, found_database, units) = superblock(region.as_ref())?;
        if let Some(expected) = database.filter(|expected| *expected != found_database) {
            return Err(damaged(
                region.as_ref(),
                DATABASE,
                format!("the pool belongs to database {found_database:032x}, and this is {expected:032x}"),
            ));
        }
        let pool = Pool { region, unit_bytes, database: found_database, state: Mutex::default() };
        let mut state = pool.read_headers(units);
        let is_table = |found: &UnitState| found.kind == UnitKind::Table;
        let tables: Vec<u64> = state.found.iter().filter(|found| is_table(found)).map(|found| found.owner).collect();
        let keeps_all = !state.damaged.is_empty();
        let is_kept = |found: &UnitState| keeps_all || tables.contains(&found.owner);
        let (kept, orphans): (Vec<UnitState>, Vec<UnitState>) = state.found.into_iter().partition(is_kept);
        state.found = kept;
        let orphans: Vec<u64> = orphans.iter().map(|found| found.unit).collect();
        *pool.state.lock() = state;
        pool.release(&orphans);
        Ok(pool)
    }

    /// Opens a pool that another process may change, for reading: no unit is freed.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn view(region: Arc<dyn Region>, database: u128) -> Result<Pool> {
        let (unit_bytes, found, _) = superblock(region.as_ref())?;
        let pool = Pool { region, unit_bytes, database: found, state: Mutex::default() };
        if found != database {
            let reason = format!("the pool belongs to database {found:032x}, and this is {database:032x}");
            return Err(damaged(pool.region.as_ref(), DATABASE, reason));
        }
        pool.look_again()?;
        Ok(pool)
    }

    /// Reads the headers again, of a pool that another process may have changed.
    ///
    /// # Errors
    /// The superblock is damaged.
    pub fn look_again(&self) -> Result<()> {
        let (.., units) = superblock(self.region.as_ref())?;
        *self.state.lock() = self.read_headers(units);
        Ok(())
    }

    /// Learns how many units there are, of a pool that another process may have extended.
    ///
    /// # Errors
    /// The superblock is damaged.
    pub fn follow(&self) -> Result<()> {
        let (.., units) = superblock(self.region.as_ref())?;
        self.state.lock().units = units;
        Ok(())
    }

    fn read_headers(&self, units: u64) -> State {
        let mut state = State { units, ..State::default() };
        for unit in (1..units).rev() {
            match self.read_header(unit) {
                Ok(None) => state.free.push(unit),
                Ok(Some(found)) => state.found.push(found),
                Err(error) => state.damaged.push((unit, error.to_string())),
            }
        }
        state
    }

    /// From now on no unit that is free, or becomes free, is used, since snapshots of other processes may have it.
    pub fn hold_back(&self) {
        let mut state = self.state.lock();
        let free = std::mem::take(&mut state.free);
        state.held_back.get_or_insert_default().extend(free);
    }

    /// Ends that.
    pub fn let_go(&self) {
        let mut state = self.state.lock();
        let held_back = state.held_back.take().unwrap_or_default();
        state.free.extend(held_back);
    }

    /// Notes durably that a commit of the log has changed the pool, before the log says so.
    pub fn note_commit(&self, sequence: u64) {
        self.region.store(LAST, seal(sequence.min(SEALED_MAX)));
        self.region.flush(LAST, 8);
        self.region.fence();
    }

    /// The last commit that was noted; 0 if there was none.
    ///
    /// # Errors
    /// The word is damaged.
    pub fn last_commit(&self) -> Result<u64> {
        let word = self.region.words().load(LAST);
        unseal(word).ok_or_else(|| damaged(self.region.as_ref(), LAST, "the number of the last commit is damaged"))
    }

    /// The region.
    pub fn region(&self) -> &Arc<dyn Region> {
        &self.region
    }

    /// Bytes of a unit.
    pub fn unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    /// The database to which the pool belongs.
    pub fn database(&self) -> u128 {
        self.database
    }

    /// The numbers of units and of free units.
    pub fn usage(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.units, (state.free.len() + state.held_back.as_ref().map_or(0, Vec::len)) as u64)
    }

    /// The damaged units, each with the reason.
    pub fn damaged(&self) -> Vec<(u64, String)> {
        self.state.lock().damaged.clone()
    }

    /// The tables that opening found, by number, ascending.
    pub fn tables(&self) -> Vec<u64> {
        let state = self.state.lock();
        let tables = state.found.iter().filter(|found| found.kind == UnitKind::Table);
        let mut tables: Vec<u64> = tables.map(|found| found.owner).collect();
        tables.sort_unstable();
        tables
    }

    /// The units of a table that opening found, in the order of the region. The table owns them from now on.
    pub fn take_units(&self, owner: u64) -> Vec<UnitState> {
        let mut state = self.state.lock();
        let (mut taken, rest): (Vec<_>, Vec<_>) = state.found.drain(..).partition(|found| found.owner == owner);
        state.found = rest;
        taken.sort_unstable_by_key(|found| found.unit);
        taken
    }

    /// The tables that opening found, each with the table of the store whose rows it has.
    pub fn tables_of_store(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let tables = state.found.iter().filter(|found| found.kind == UnitKind::Table);
        let mut tables: Vec<(u64, u64)> = tables.map(|found| (found.owner, found.values.0)).collect();
        tables.sort_unstable();
        tables
    }

    /// Frees the units of a table that was dropped.
    pub fn release_owner(&self, owner: u64) {
        let units = self.usage().0;
        let is_owned = |unit: &u64| matches!(self.read_header(*unit), Ok(Some(found)) if found.owner == owner);
        let owned: Vec<u64> = (1..units).filter(is_owned).collect();
        self.release(&owned);
    }

    /// Drops a table that opening found.
    pub fn discard(&self, owner: u64) {
        let units: Vec<u64> = self.take_units(owner).iter().map(|unit| unit.unit).collect();
        let heads = units
            .iter()
            .filter(|unit| matches!(self.read_header(**unit), Ok(Some(UnitState { kind: UnitKind::Table, .. }))));
        for head in heads {
            self.region.store(self.offset(*head), 0);
            self.region.flush(self.offset(*head), 8);
        }
        self.region.fence();
        self.release(&units);
    }

    /// The offset of a unit.
    pub fn offset(&self, unit: u64) -> u64 {
        unit * self.unit_bytes
    }

    /// Takes a free unit. Its header is durable after the next fence. The rest of the unit has any content.
    ///
    /// # Errors
    /// The pool is full and cannot grow.
    pub fn claim(&self, kind: UnitKind, owner: u64, values: (u64, u64)) -> Result<u64> {
        let unit = self.prepare(kind, owner, values)?;
        self.publish(unit, kind);
        Ok(unit)
    }

    /// Takes a free unit and writes its header but for the first word, without which the unit is still free. Then
    /// [`publish`](Self::publish) stores that word.
    ///
    /// # Errors
    /// The pool is full and cannot grow.
    pub fn prepare(&self, kind: UnitKind, owner: u64, values: (u64, u64)) -> Result<u64> {
        let unit = self.take_free()?;
        let (region, offset) = (&self.region, self.offset(unit));
        region.store(offset, 0);
        region.store(offset + OWNER, owner);
        region.store(offset + INDEX, unit);
        region.store(offset + NEXT, 0);
        region.store(offset + FIRST, values.0);
        region.store(offset + SECOND, values.1);
        region.store(offset + OWN, 0);
        region.store(offset + UNIT_CHECK, self.header_check(unit, first_word(kind)));
        Ok(unit)
    }

    /// Stores the first word of a prepared unit. A header is one line, whose stores become durable in their order, so
    /// the first word never does before the others. All are durable after the next fence.
    pub fn publish(&self, unit: u64, kind: UnitKind) {
        self.region.store(self.offset(unit), first_word(kind));
        self.region.flush(self.offset(unit), HEADER_BYTES);
    }

    /// Frees units, which nothing links any more. That this is durable is not needed: what nothing links is free when
    /// the pool is opened.
    pub fn release(&self, units: &[u64]) {
        units.iter().for_each(|unit| self.region.store(self.offset(*unit), 0));
        let mut state = self.state.lock();
        let State { free, held_back, .. } = &mut *state;
        held_back.as_mut().unwrap_or(free).extend(units);
    }

    /// The number of the unit at an offset that a link names, if it is a unit of this kind and owner.
    ///
    /// # Errors
    /// The offset is no unit's, or the unit has another kind or owner, or its header is damaged.
    pub fn expect(&self, unit: u64, kind: UnitKind, owner: u64) -> Result<UnitState> {
        let units = self.state.lock().units;
        if unit == 0 || unit >= units {
            return Err(damaged(self.region.as_ref(), self.offset(unit), format!("no unit {unit}: there are {units}")));
        }
        match self.read_header(unit)? {
            Some(found) if found.kind == kind && found.owner == owner => Ok(found),
            found => Err(damaged(
                self.region.as_ref(),
                self.offset(unit),
                format!("a unit of kind {kind:?} of table {owner} was expected, and there is {found:?}"),
            )),
        }
    }

    fn take_free(&self) -> Result<u64> {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(unit) = state.free.pop() {
            return Ok(unit);
        }
        let units_max = u64::from(u32::MAX).min(SEALED_MAX / self.unit_bytes);
        let extent = state.units + EXTENT_UNITS.max(state.units / 8);
        // At the end there may be no room for an extent, but for a unit.
        let mut units = extent.min(units_max);
        if self.region.grow(units * self.unit_bytes).is_err() {
            units = state.units + 1;
            self.region.grow(units * self.unit_bytes)?;
        }
        if units <= state.units {
            return Err(StoreError::invalid(format!("{} has as many units as are possible", self.region.place())));
        }
        self.region.store(UNITS, seal(units));
        self.region.flush(UNITS, 8);
        self.region.fence();
        state.free.extend((state.units..units).rev());
        state.units = units;
        Ok(state.free.pop().expect("the pool has grown"))
    }

    /// The state of a unit; `None` if it is free.
    fn read_header(&self, unit: u64) -> Result<Option<UnitState>> {
        let (words, offset) = (self.region.words(), self.offset(unit));
        let first = words.load(offset);
        if first == 0 {
            return Ok(None);
        }
        let wrong = |reason: &str| damaged(self.region.as_ref(), offset, reason);
        let bytes = first.to_le_bytes();
        if bytes[..4] != *UNIT_MAGIC || bytes[5..] != [0; 3] {
            return Err(wrong("neither a unit's magic number nor a free unit"));
        }
        let kind = UnitKind::of(bytes[4]).ok_or_else(|| wrong("a unit of a kind that this version does not know"))?;
        if words.load(offset + UNIT_CHECK) != self.header_check(unit, first) || words.load(offset + INDEX) != unit {
            return Err(wrong("the header's checksum is wrong"));
        }
        let values = (words.load(offset + FIRST), words.load(offset + SECOND));
        Ok(Some(UnitState { unit, kind, owner: words.load(offset + OWNER), values }))
    }

    /// The checksum of what does not change in a header: its first three words, `first` being the first, and two more.
    fn header_check(&self, unit: u64, first: u64) -> u64 {
        let (words, offset) = (self.region.words(), self.offset(unit));
        let mut bytes = [0; 40];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        words.read(offset + OWNER, &mut bytes[8..24]);
        words.read(offset + FIRST, &mut bytes[24..]);
        checksum(&bytes).into()
    }

    /// The bytes of a unit behind its header.
    pub fn content(&self, unit: u64) -> Range<u64> {
        self.offset(unit) + HEADER_BYTES..self.offset(unit + 1)
    }
}

fn first_word(kind: UnitKind) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(UNIT_MAGIC);
    bytes[4] = kind as u8;
    u64::from_le_bytes(bytes)
}

/// The size of units, the database and the number of units of a pool.
fn superblock(region: &dyn Region) -> Result<(u64, u128, u64)> {
    if region.len() < HEADER_BYTES {
        return Err(damaged(region, 0, "too short for a pool"));
    }
    let words = region.words();
    let mut start = [0; 32];
    words.read(0, &mut start);
    if start[..8] != *MAGIC {
        return Err(damaged(
            region,
            0,
            "not a pool, or one whose creation was interrupted: its magic number is missing",
        ));
    }
    if words.load(CHECK) != u64::from(checksum(&start)) {
        return Err(damaged(region, CHECK, "the checksum of the superblock is wrong"));
    }
    let (version, unit_bytes) = (words.load(SIZES) & 0xffff_ffff, words.load(SIZES) >> 32);
    if version != VERSION {
        return Err(damaged(region, SIZES, format!("version {version}; this program reads version {VERSION}")));
    }
    if !unit_bytes.is_power_of_two() || !(4096..=1 << 20).contains(&unit_bytes) {
        return Err(damaged(region, SIZES, format!("units of {unit_bytes} bytes")));
    }
    let database = u128::from(words.load(DATABASE)) | u128::from(words.load(DATABASE + 8)) << 64;
    let units = unseal(words.load(UNITS)).filter(|units| (2..=u64::from(u32::MAX)).contains(units));
    let units = units.ok_or_else(|| damaged(region, UNITS, "the number of units is damaged"))?;
    if units * unit_bytes > region.len() {
        let needed = units * unit_bytes;
        return Err(damaged(region, region.len(), format!("cut short: the pool has {needed} bytes")));
    }
    Ok((unit_bytes, database, units))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::region::MemoryRegion;

    const OPTIONS: PoolOptions = PoolOptions { unit_bytes: 4096, database: 7 };

    fn words_of(region: &dyn Region) -> Vec<u64> {
        let mut words = vec![0; region.len() as usize / 8];
        region.words().load_words(0, &mut words);
        words
    }

    fn reopened(words: &[u64]) -> Result<Pool> {
        Pool::open(Arc::new(MemoryRegion::of_words(words, 1 << 20)), Some(7))
    }

    fn pool() -> Pool {
        Pool::create(Arc::new(MemoryRegion::new(8 * 4096, 1 << 20)), OPTIONS).expect("a pool")
    }

    #[test]
    fn headers_say_what_is_free() {
        let pool = pool();
        let table = pool.claim(UnitKind::Table, 3, (1, 2)).expect("room");
        let block = pool.claim(UnitKind::Block, 3, (5, 6)).expect("room");
        let orphan = pool.claim(UnitKind::Block, 4, (0, 0)).expect("room");
        assert_eq!((table, block, orphan), (1, 2, 3));
        // A unit that was not published is free.
        pool.prepare(UnitKind::Block, 3, (0, 0)).expect("room");
        let again = reopened(&words_of(pool.region().as_ref())).expect("a pool");
        assert_eq!((again.usage(), again.tables(), again.database()), ((8, 5), vec![3], 7));
        let units = again.take_units(3);
        assert_eq!(units.iter().map(|u| (u.unit, u.values)).collect::<Vec<_>>(), [(1, (1, 2)), (2, (5, 6))]);
        assert!(again.take_units(3).is_empty());
        again.release(&[2]);
        assert_eq!(reopened(&words_of(again.region().as_ref())).expect("a pool").usage(), (8, 6));
        assert!(again.expect(1, UnitKind::Block, 3).is_err() && again.expect(99, UnitKind::Table, 3).is_err());
    }

    #[test]
    fn a_pool_grows_and_ends() {
        let pool = pool();
        let taken: Vec<u64> = std::iter::from_fn(|| pool.claim(UnitKind::Block, 1, (0, 0)).ok()).collect();
        assert_eq!((taken.len(), taken[7]), (255, 8), "all but the first");
        let message = pool.claim(UnitKind::Block, 1, (0, 0)).expect_err("full").to_string();
        assert!(message.contains("extend"), "{message}");
    }

    #[test]
    fn damage_is_named_and_never_freed() {
        let pool = pool();
        pool.claim(UnitKind::Table, 3, (0, 0)).expect("room");
        pool.claim(UnitKind::Block, 3, (0, 0)).expect("room");
        let sound = words_of(pool.region().as_ref());
        for (word, bit, expected) in
            [(0, 0, "magic"), (1, 0, "checksum"), (2, 9, "checksum"), (4, 3, "checksum"), (5, 1, "number of units")]
        {
            let mut words = sound.clone();
            words[word] ^= 1 << bit;
            let message = reopened(&words).expect_err("damaged").to_string();
            assert!(message.contains(expected) && message.contains(":memory:"), "{word}: {message}");
        }
        for word in [0, 1, 2, 3, 5, 6] {
            let mut words = sound.clone();
            words[512 + word] ^= 2;
            let pool = reopened(&words).expect("the pool itself is sound");
            assert_eq!((pool.damaged().len(), pool.usage()), (1, (8, 5)), "word {word}");
        }
        assert!(reopened(&sound[..sound.len() - 512]).expect_err("short").to_string().contains("cut short"));
        let other = Pool::open(Arc::new(MemoryRegion::of_words(&sound, 0)), Some(8)).expect_err("another");
        assert!(other.to_string().contains("belongs to database"), "{other}");
        let small = Pool::create(Arc::new(MemoryRegion::new(4096, 4096)), OPTIONS);
        assert!(small.expect_err("one unit").to_string().contains("two units"));
    }
}
