//! A region with latencies added per line, to see what slower memory would change. Its figures are of no real memory.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{LINE_BYTES, Line, Persistence, Region, Site};
use crate::media::Result;

/// Adds time to every line that is flushed, and to every line of which a reader says that it loads it.
#[derive(Debug)]
pub struct DelayedRegion {
    inner: Arc<dyn Region>,
    read: Duration,
    write: Duration,
}

impl DelayedRegion {
    /// The region `inner` with these latencies per line.
    pub fn new(inner: Arc<dyn Region>, read: Duration, write: Duration) -> DelayedRegion {
        DelayedRegion { inner, read, write }
    }
}

/// Waits without giving up the processor, as a load from slow memory does.
fn wait(duration: Duration) {
    if duration.is_zero() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

impl Region for DelayedRegion {
    fn lines(&self) -> &[Line] {
        self.inner.lines()
    }

    fn store(&self, offset: u64, value: u64) {
        self.inner.store(offset, value);
    }

    fn write_back(&self, lines: Range<u64>, site: Site) {
        wait(self.write * (lines.end - lines.start) as u32);
        self.inner.write_back(lines, site);
    }

    fn order(&self, site: Site) {
        self.inner.order(site);
    }

    fn grow(&self, len: u64) -> Result<()> {
        self.inner.grow(len)
    }

    fn touch(&self, offset: u64, len: u64) {
        let lines = (offset + len).div_ceil(LINE_BYTES) - offset / LINE_BYTES;
        wait(self.read * lines as u32);
    }

    fn persistence(&self) -> Persistence {
        self.inner.persistence()
    }

    fn place(&self) -> String {
        let nanos = |duration: Duration| duration.as_nanos();
        format!("{} with {} and {} ns per line added", self.inner.place(), nanos(self.read), nanos(self.write))
    }
}
