//! An object store over HTTP for tests: what S3's clients ask for, in memory, with planned faults and counters.
//!
//! [`Server::start`] listens at a free port of this machine. Objects are created under one lock, so that of several conditional
//! creates one wins. [`Fault`]s are planned for the next requests that match. A path is `/bucket/key`, so the same objects can be
//! read by plain HTTP. Only the standard library is used, so that the crate compiles in a second. Not for production: requests
//! name a key, whose signature is not verified.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod http;
mod objects;

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http::{Request, Response};
use objects::Objects;

/// The key that requests must name, and its secret.
pub const KEY_ID: &str = "AKIDMOCK";
/// The secret of [`KEY_ID`], to look for in outputs that must not have it.
pub const SECRET: &str = "s3cr3t-of-the-mock-store";

/// What goes wrong with a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The request is not done; the answer has this status and S3's code of the error.
    Status(u16, &'static str),
    /// The request is done, and its answer is one that says the opposite.
    LostAnswer,
    /// The answer comes so much later.
    Slow(Duration),
    /// The connection ends after half of the body.
    Cut,
    /// The object gets other bytes of the same length before the request is done.
    Changed,
    /// The client is sent to another address.
    Redirect(String),
}

/// A fault for some of the next requests.
#[derive(Debug, Clone)]
struct Plan {
    fault: Fault,
    method: &'static str,
    part: String,
    skip: usize,
    times: usize,
}

/// Requests so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests per method.
    pub requests: BTreeMap<String, u64>,
    /// Bytes of bodies that were sent.
    pub sent_bytes: u64,
}

impl Traffic {
    /// Requests of all methods.
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }
}

/// A line that all connections share: when it is free again, and the bytes that it carries per second.
#[derive(Debug, Clone, Copy)]
struct Pace {
    free: Instant,
    bytes_per_second: u64,
}

impl Pace {
    /// Sends this number of bytes after all others, and says for how long the sender waits.
    fn wait(&mut self, bytes: usize) -> Duration {
        let now = Instant::now();
        self.free = self.free.max(now) + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        self.free.duration_since(now)
    }
}

#[derive(Debug, Default)]
struct State {
    objects: Mutex<Objects>,
    plans: Mutex<Vec<Plan>>,
    traffic: Mutex<Traffic>,
    delay: Mutex<Duration>,
    pace: Mutex<Option<Pace>>,
    /// Servers of plain files know no ranges.
    without_ranges: AtomicBool,
    ends: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running store, which ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    state: Arc<State>,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a store at a free port of this machine.
    ///
    /// # Errors
    /// The system gives no port or no thread.
    pub fn start() -> io::Result<Server> {
        Server::start_at("127.0.0.1:0")
    }

    /// Starts a store at an address.
    ///
    /// # Errors
    /// The address is in use, or the system gives no thread.
    pub fn start_at(address: &str) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let state = Arc::new(State::default());
        let shared = state.clone();
        let accept = move || {
            for stream in listener.incoming() {
                if shared.ends.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), state) = (stream, shared.clone()) else { continue };
                // A client that goes away is no concern of the store.
                let _ = std::thread::Builder::new().spawn(move || serve(&stream, &state));
            }
        };
        let listener = std::thread::Builder::new().name("mock-store".to_owned()).spawn(accept)?;
        Ok(Server { address, state, listener: Some(listener) })
    }

    /// The address as a URL: `http://127.0.0.1:port`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The environment in which clients of S3 find this store.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT", self.endpoint()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY_ID.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
    }

    /// Makes a bucket. Anybody reads those that begin with `public`.
    pub fn create_bucket(&self, bucket: &str) {
        locked(&self.state.objects).create_bucket(bucket);
    }

    /// Writes an object, and makes its bucket if there is none.
    pub fn put(&self, bucket: &str, key: &str, bytes: Vec<u8>) {
        let mut objects = locked(&self.state.objects);
        objects.create_bucket(bucket);
        objects.put(bucket, key, bytes);
    }

    /// The bytes of an object.
    pub fn get(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        locked(&self.state.objects).bytes(bucket, key)
    }

    /// The keys of a bucket, sorted.
    pub fn keys(&self, bucket: &str) -> Vec<String> {
        locked(&self.state.objects).keys(bucket)
    }

    /// Uploads in parts that were begun, and neither completed nor aborted.
    pub fn open_uploads(&self) -> usize {
        locked(&self.state.objects).open_uploads()
    }

    /// Plans a fault for the next `times` requests of a method (empty: any) whose path and query have `part`, after `skip` others.
    pub fn plan(&self, fault: Fault, method: &'static str, part: &str, skip: usize, times: usize) {
        locked(&self.state.plans).push(Plan { fault, method, part: part.to_owned(), skip, times });
    }

    /// Whether all planned faults have happened.
    pub fn is_done(&self) -> bool {
        locked(&self.state.plans).is_empty()
    }

    /// Forgets the faults that have not happened.
    pub fn forget_plans(&self) {
        locked(&self.state.plans).clear();
    }

    /// Each request from now on is answered so much later, as by a store that is far away.
    pub fn delay(&self, delay: Duration) {
        *locked(&self.state.delay) = delay;
    }

    /// All bodies together are sent at no more than this many bytes per second from now on, which is above 0.
    pub fn limit_rate(&self, bytes_per_second: u64) {
        *locked(&self.state.pace) = Some(Pace { free: Instant::now(), bytes_per_second: bytes_per_second.max(1) });
    }

    /// Ranges are ignored from now on: whole objects are sent.
    pub fn ignore_ranges(&self) {
        self.state.without_ranges.store(true, Ordering::Relaxed);
    }

    /// Requests and bytes since the last call.
    pub fn take_traffic(&self) -> Traffic {
        std::mem::take(&mut *locked(&self.state.traffic))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

/// Answers the requests of a connection.
fn serve(stream: &TcpStream, state: &State) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Ok(Some(request)) = Request::read(&mut reader) {
        if state.ends.load(Ordering::Relaxed) {
            return;
        }
        let fault = due(state, &request);
        // Others wait at the same time, so the lock is not held meanwhile.
        let delay = *locked(&state.delay);
        std::thread::sleep(delay);
        let (response, is_cut) = answered(state, &request, fault);
        let mut traffic = locked(&state.traffic);
        *traffic.requests.entry(request.method.clone()).or_default() += 1;
        traffic.sent_bytes += response.body.len() as u64;
        drop(traffic);
        let wait = locked(&state.pace).as_mut().map(|pace| pace.wait(response.body.len()));
        std::thread::sleep(wait.unwrap_or_default());
        if response.write(stream, request.method == "HEAD", is_cut).is_err() || is_cut {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

/// The answer, and whether only half of it is sent.
fn answered(state: &State, request: &Request, fault: Option<Fault>) -> (Response, bool) {
    let with_ranges = !state.without_ranges.load(Ordering::Relaxed);
    let done = || locked(&state.objects).answer(request, with_ranges);
    match fault {
        None => (done(), false),
        Some(Fault::Status(status, code)) => (Response::error(status, code), false),
        Some(Fault::Redirect(to)) => (Response::empty(307).with("Location", &to), false),
        Some(Fault::LostAnswer) => {
            done();
            (Response::error(503, "SlowDown"), false)
        }
        Some(Fault::Slow(time)) => {
            std::thread::sleep(time);
            (done(), false)
        }
        Some(Fault::Cut) => (done(), true),
        Some(Fault::Changed) => {
            locked(&state.objects).change(request);
            (done(), false)
        }
    }
}

/// The fault that is planned for a request.
fn due(state: &State, request: &Request) -> Option<Fault> {
    let mut plans = locked(&state.plans);
    let is_meant = |plan: &Plan| {
        (plan.method.is_empty() || plan.method == request.method) && request.target.contains(plan.part.as_str())
    };
    let at = plans.iter().position(is_meant)?;
    let plan = &mut plans[at];
    if plan.skip > 0 {
        plan.skip -= 1;
        return None;
    }
    plan.times = plan.times.saturating_sub(1);
    let fault = plan.fault.clone();
    if plan.times == 0 {
        plans.remove(at);
    }
    Some(fault)
}

#[cfg(test)]
mod tests;
