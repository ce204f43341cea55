//! Exploration of crashes: a workload on a tracked region, in which each content that a crash could leave must open to
//! what was acknowledged, or to that and the operation under way.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use parking_lot::Mutex;

use crate::media::region::{CrashPoint, MemoryRegion, Region, Site, TrackedRegion};

/// How a structure is opened: to its content, or to the reason why it is damaged.
pub type Open<S> = fn(Arc<dyn Region>) -> Result<S, String>;

/// How a structure is used: how it is opened, and what then still works.
#[derive(Clone, Copy)]
pub struct Uses<S> {
    pub open: Open<S>,
    /// Opens it once more and changes it.
    pub change: fn(Arc<dyn Region>) -> Result<(), String>,
}

/// Contents per crash point, unless there are fewer.
const IMAGES: usize = 16;
/// The number of contents that are opened on a tracked region, with crashes during opening.
const NESTED: u64 = 16;
/// The number of contents that are changed after it was opened.
const CHANGED: u64 = 5;
const NESTED_IMAGES: usize = 6;

/// A workload under exploration.
pub struct Explorer<S> {
    pub region: Arc<TrackedRegion>,
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    uses: Uses<S>,
    capacity: u64,
    rounds: usize,
    /// What is acknowledged, and what will be.
    expected: Mutex<(S, S)>,
    images: AtomicU64,
    /// Contents that opening had to repair, with what they open to.
    repaired: Mutex<Vec<(Vec<u64>, S)>>,
    failure: Mutex<Option<String>>,
}

impl<S: Clone + PartialEq + Debug + Send + 'static> Explorer<S> {
    /// Begins at a durable content that opens to `start`. The flushes or fences at `omitted` do nothing.
    pub fn new(words: Vec<u64>, capacity: u64, start: S, uses: Uses<S>, omitted: Option<Site>) -> Explorer<S> {
        let region = Arc::new(TrackedRegion::of_words(words, capacity));
        if let Some(site) = omitted {
            region.omit(site);
        }
        let shared = Arc::new(Shared {
            uses,
            capacity,
            rounds: rounds(),
            expected: Mutex::new((start.clone(), start)),
            images: AtomicU64::new(0),
            repaired: Mutex::default(),
            failure: Mutex::new(None),
        });
        let seen = shared.clone();
        region.observe(Some(Arc::new(move |point| seen.explore(&point))));
        Explorer { region, shared }
    }

    /// Runs an operation that leads to `next`, on a thread of its own: no fence of another operation helps it.
    pub fn step(&self, next: S, operation: impl FnOnce() + Send) {
        if self.shared.failure.lock().is_some() {
            return;
        }
        self.shared.expected.lock().1 = next.clone();
        thread::scope(|scope| {
            scope.spawn(operation);
        });
        *self.shared.expected.lock() = (next.clone(), next);
        self.shared.explore(&self.region.crash_point());
    }

    /// Every `step`-th content that opening had to repair, with what it opens to.
    pub fn repaired(&self, step: usize) -> Vec<(Vec<u64>, S)> {
        self.shared.repaired.lock().iter().step_by(step).cloned().collect()
    }

    /// What became of the workload.
    pub fn outcome(&self) -> Outcome {
        let images = self.shared.images.load(Ordering::Relaxed);
        Outcome { images, failure: self.shared.failure.lock().clone(), sites: self.region.sites() }
    }
}

/// The multiple of the usual number of contents: `FREESTONE_TEST_ROUNDS`.
fn rounds() -> usize {
    std::env::var("FREESTONE_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

impl<S: Clone + PartialEq + Debug + Send + 'static> Shared<S> {
    fn explore(&self, point: &CrashPoint) {
        if self.failure.lock().is_some() {
            return;
        }
        let seed = self.images.load(Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for image in point.images(IMAGES * self.rounds, seed) {
            let number = self.images.fetch_add(1, Ordering::Relaxed);
            if let Err(reason) = self.check(image, number) {
                *self.failure.lock() = Some(format!("content {number}: {reason}"));
                return;
            }
        }
    }

    fn check(&self, image: Vec<u64>, number: u64) -> Result<(), String> {
        let again = number.is_multiple_of(NESTED).then(|| image.clone());
        let region: Arc<dyn Region> = Arc::new(MemoryRegion::of_words(&image, self.capacity));
        let found = (self.uses.open)(region.clone())?;
        if again.is_some() && words_of(region.as_ref()) != image {
            self.repaired.lock().push((image, found.clone()));
        }
        if number.is_multiple_of(CHANGED) {
            (self.uses.change)(region)?;
        }
        let (before, after) = self.expected.lock().clone();
        if found != before && found != after {
            return Err(format!("opens to {found:?}, which is neither {before:?} nor {after:?}"));
        }
        let Some(image) = again else { return Ok(()) };
        self.check_crashes_of_opening(image, &found)
    }

    /// A crash during opening leaves what opens to the same.
    fn check_crashes_of_opening(&self, image: Vec<u64>, expected: &S) -> Result<(), String> {
        let tracked = Arc::new(TrackedRegion::of_words(image, self.capacity));
        let points: Arc<Mutex<Vec<CrashPoint>>> = Arc::default();
        let seen = points.clone();
        tracked.observe(Some(Arc::new(move |point| seen.lock().push(point))));
        (self.uses.open)(tracked.clone())?;
        tracked.observe(None);
        points.lock().push(tracked.crash_point());
        for point in points.lock().drain(..) {
            for image in point.images(NESTED_IMAGES, 1) {
                self.images.fetch_add(1, Ordering::Relaxed);
                let found = (self.uses.open)(Arc::new(MemoryRegion::of_words(&image, self.capacity)))?;
                if found != *expected {
                    return Err(format!("opens to {found:?} after a crash of opening, and to {expected:?} before"));
                }
            }
        }
        Ok(())
    }
}

/// The content of a region.
pub fn words_of(region: &dyn Region) -> Vec<u64> {
    let mut words = vec![0; region.len() as usize / 8];
    region.words().load_words(0, &mut words);
    words
}

/// What became of a workload.
pub struct Outcome {
    /// The number of contents that were opened.
    pub images: u64,
    /// The first that was wrong.
    pub failure: Option<String>,
    /// The flushes and fences of the workload.
    pub sites: Vec<Site>,
}

/// The fence after a leaf was taken out of the list. It matters only if the leaf is used again before the next fence, which no
/// workload does.
const UNNOTICED_MAX: usize = 1;

/// Runs workloads once, then without each of their flushes and fences, which a check of one of them must notice.
/// `workload` runs one of them by its number; the quick ones come first. Returns the contents of the first runs.
pub fn check_every_site(workloads: usize, workload: impl Fn(usize, Option<Site>) -> Outcome) -> u64 {
    let (mut images, mut sites) = (0, BTreeMap::<Site, Vec<usize>>::new());
    for number in 0..workloads {
        let outcome = workload(number, None);
        assert_eq!(outcome.failure, None, "workload {number}, after {} contents", outcome.images);
        images += outcome.images;
        outcome.sites.into_iter().for_each(|site| sites.entry(site).or_default().push(number));
    }
    let is_noticed = |(site, numbers): &(Site, Vec<usize>)| {
        numbers.iter().any(|number| workload(*number, Some(site)).failure.is_some())
    };
    let unnoticed = sites.into_iter().filter(|site| !is_noticed(site)).map(|(site, _)| site);
    let unnoticed: Vec<String> = unnoticed.map(|site| site.to_string()).collect();
    assert!(unnoticed.len() <= UNNOTICED_MAX, "nothing depends on these flushes or fences: {unnoticed:#?}");
    images
}
