//! Leases: which processes are there, and what they need.
//!
//! A lease is an object that its process replaces from time to time. Its name has a number, which no other process gets,
//! and which is a part of the numbers that the process gives to tables and segments: so processes need not agree on these.
//! Its content names the oldest commit whose files some statement of the process reads.
//!
//! A lease that was not renewed for the retention has ended, and VACUUM removes what it protected. Its process stops to
//! count on it after half of that ([`Lease::is_lapsed`]).

use serde::{Deserialize, Serialize};

use crate::log::{LogError, random_id};
use crate::media::MediumError;
use crate::media::objects::{Created, ObjectInfo, Objects, create_surely};

use super::{Moment, SharedLog};

const FOLDER: &str = "leases";
/// A process numbers tables and segments with this many bits below its own number. Ids have 40 bits.
pub const ID_BITS: u32 = 16;
/// The largest number of a process.
const LAST: u64 = (1 << (40 - ID_BITS)) - 1;

/// The lease of this process.
#[derive(Debug)]
pub struct Lease {
    /// The newest is the last.
    numbers: Vec<u64>,
    renewed: Moment,
    /// What it says.
    oldest: Option<u64>,
}

/// The content of a lease.
#[derive(Debug, Serialize, Deserialize)]
struct Text {
    process: u32,
    oldest: Option<u64>,
    /// So that no two processes write the same.
    number: String,
}

impl Text {
    fn bytes(oldest: Option<u64>) -> Vec<u8> {
        let number = format!("{:032x}", random_id());
        let text = Text { process: std::process::id(), oldest, number };
        serde_json::to_vec(&text).unwrap_or_default()
    }
}

fn lease_name(number: u64) -> String {
    format!("{FOLDER}/{number:08}")
}

/// The number in the name of a lease.
pub(super) fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix(FOLDER)?.strip_prefix('/')?.parse().ok()
}

/// All leases, whether their processes are still there or not.
pub(super) fn listed(objects: &dyn Objects) -> Result<Vec<ObjectInfo>, MediumError> {
    objects.list(FOLDER, None, usize::MAX)
}

/// The oldest commit that a lease needs; `None` if it needs none.
pub(super) fn oldest_in(bytes: &[u8]) -> Option<u64> {
    // A lease that cannot be read needs everything.
    serde_json::from_slice::<Text>(bytes).map_or(Some(0), |text| text.oldest)
}

impl Lease {
    /// The first number for a table or segment.
    pub fn first_id(&self) -> u64 {
        self.numbers.last().map_or(0, |number| number << ID_BITS)
    }

    /// Whether an id is one that this process may give.
    pub fn has_id(&self, id: u64) -> bool {
        self.numbers.contains(&(id >> ID_BITS))
    }

    /// Whether it was not renewed for so long that others may see it as ended soon.
    pub fn is_lapsed(&self, log: &SharedLog) -> bool {
        self.renewed.elapsed() >= log.patience()
    }
}

impl SharedLog {
    /// Takes a number for this process, or another one. `last_id` is the last one of the newest state.
    ///
    /// # Errors
    /// The store cannot be written, or all numbers were given.
    pub fn claim(&self, last_id: u64, oldest: Option<u64>) -> Result<(), LogError> {
        let objects = self.objects.as_ref();
        let renewed = Moment::now();
        let known = listed(objects)?.iter().filter_map(|lease| number_of(&lease.name)).max();
        let mut number = known.unwrap_or(0).max(last_id >> ID_BITS) + 1;
        let bytes = Text::bytes(oldest);
        while create_surely(objects, &lease_name(number), &bytes)? == Created::Others {
            number += 1;
        }
        if number > LAST {
            return Err(LogError::NoNumbers { place: objects.place() });
        }
        let mut lease = self.lease.lock();
        match lease.as_mut().filter(|lease| !lease.is_lapsed(self)) {
            Some(lease) => lease.numbers.push(number),
            None => *lease = Some(Lease { numbers: vec![number], renewed, oldest }),
        }
        Ok(())
    }

    /// Renews the lease of this process, and tells others which is the oldest commit that it needs. One that has lapsed is
    /// not renewed: what it protected may be gone.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn renew(&self, oldest: Option<u64>) -> Result<(), MediumError> {
        let begun = Moment::now();
        let numbers = match self.lease.lock().as_ref().filter(|lease| !lease.is_lapsed(self)) {
            Some(lease) => lease.numbers.clone(),
            None => return Ok(()),
        };
        for number in &numbers {
            self.objects.put(&lease_name(*number), &Text::bytes(oldest))?;
        }
        if let Some(lease) = self.lease.lock().as_mut().filter(|lease| !lease.is_lapsed(self)) {
            (lease.renewed, lease.oldest) = (begun, oldest);
        }
        Ok(())
    }

    /// Ends the lease of this process, which needs nothing any more.
    pub fn end_lease(&self) {
        if let Some(lease) = self.lease.lock().take().filter(|lease| !lease.is_lapsed(self)) {
            let names: Vec<String> = lease.numbers.iter().map(|number| lease_name(*number)).collect();
            // Others see that it has ended when it is not renewed any more.
            let _ = self.objects.remove(&names);
        }
    }
}
