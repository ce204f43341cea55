//! A store in memory that fails as planned: answers that are lost, refusals, bodies that are cut, stores that are not fit.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;

/// How often requests fail, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plan {
    /// An object is made or replaced, but the answer is an error.
    pub lost: u32,
    /// An object is not made yet when the answer is an error: it is made a little later.
    pub late: u32,
    /// 409: the answer says that there is an object, and there is none.
    pub conflict: u32,
    /// 412, in the same way.
    pub precondition: u32,
    /// 503, and nothing happens; also for reads.
    pub unavailable: u32,
    /// A body ends early.
    pub cut: u32,
    /// An answer takes some milliseconds.
    pub slow: u32,
    /// Creation replaces an object that is there.
    pub ignores_condition: bool,
    /// The first attempt to create an object that is there is told that it made it.
    pub two_winners: bool,
    /// Creation with a condition is not known.
    pub knows_no_condition: bool,
    /// Access is denied.
    pub denied: bool,
}

/// The store.
pub struct Faults {
    inner: Arc<InMemory>,
    plan: Mutex<Plan>,
    random: Mutex<fastrand::Rng>,
    /// Requests so far.
    pub requests: AtomicUsize,
    /// Objects to whose creation the answer is lost: those whose names contain this.
    pub lose_next: Mutex<Option<String>>,
}

impl Faults {
    pub fn new(plan: Plan, seed: u64) -> Arc<Faults> {
        Arc::new(Faults {
            inner: Arc::default(),
            plan: Mutex::new(plan),
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            requests: AtomicUsize::new(0),
            lose_next: Mutex::default(),
        })
    }

    pub fn set(&self, plan: Plan) {
        *self.plan.lock() = plan;
    }

    fn hits(&self, percent: u32) -> bool {
        percent > 0 && self.random.lock().u32(0..100) < percent
    }

    async fn before(&self) -> Result<Plan> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let plan = *self.plan.lock();
        if self.hits(plan.slow) {
            let pause = self.random.lock().u64(1..8);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        if plan.denied {
            return Err(Error::PermissionDenied { path: "x".into(), source: "403 AccessDenied".into() });
        }
        if self.hits(plan.unavailable) {
            return Err(generic("503 Service Unavailable: SlowDown"));
        }
        Ok(plan)
    }
}

fn generic(text: &'static str) -> Error {
    Error::Generic { store: "faults", source: text.into() }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults")
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults")
    }
}

#[async_trait]
impl ObjectStore for Faults {
    async fn put_opts(&self, at: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        let plan = self.before().await?;
        let creates = matches!(options.mode, PutMode::Create);
        if creates {
            if plan.knows_no_condition {
                return Err(Error::NotImplemented { operation: "If-None-Match".into(), implementer: "faults".into() });
            }
            if self.hits(plan.conflict) {
                return Err(Error::AlreadyExists {
                    path: at.to_string(),
                    source: "409 ConditionalRequestConflict".into(),
                });
            }
            if self.hits(plan.precondition) {
                return Err(Error::Precondition { path: at.to_string(), source: "412".into() });
            }
            if plan.ignores_condition {
                options.mode = PutMode::Overwrite;
            }
        }
        if self.hits(plan.late) {
            let (inner, at) = (self.inner.clone(), at.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                let _ = inner.put_opts(&at, payload, options).await;
            });
            return Err(generic("operation timed out"));
        }
        let done = self.inner.put_opts(at, payload, options).await;
        if creates && plan.two_winners && matches!(done, Err(Error::AlreadyExists { .. })) {
            return Ok(PutResult { e_tag: None, version: None });
        }
        let loses = {
            let mut next = self.lose_next.lock();
            next.take_if(|part| at.as_ref().contains(part.as_str())).is_some()
        };
        if done.is_ok() && (loses || self.hits(plan.lost)) {
            return Err(generic("operation timed out"));
        }
        done
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        let plan = self.before().await?;
        let is_head = options.head;
        let found = self.inner.get_opts(at, options).await?;
        if is_head || !self.hits(plan.cut) {
            return Ok(found);
        }
        let (meta, range, attributes) = (found.meta.clone(), found.range.clone(), found.attributes.clone());
        let bytes = found.bytes().await?;
        let cut = bytes.slice(..bytes.len() / 2);
        let payload = GetResultPayload::Stream(stream::iter([Ok(cut)]).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.plan.lock().denied {
            let denied = Error::PermissionDenied { path: "x".into(), source: "403 AccessDenied".into() };
            return stream::iter([Err(denied)]).boxed();
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
