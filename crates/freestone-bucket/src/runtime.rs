//! The threads on which requests run. Callers are synchronous: some are threads of the engine's own runtime, in which
//! nothing may be waited for that runs there.

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;

use tokio::runtime::{Builder, Runtime};

/// Requests mostly wait.
const THREADS: usize = 2;

/// The runtime of all stores of the process. It is never dropped, since that must not happen on another runtime's threads.
fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made =
        Builder::new_multi_thread().worker_threads(THREADS).thread_name("freestone-bucket").enable_all().build()?;
    Ok(RUNTIME.get_or_init(|| made))
}

/// Runs something and waits for its result.
///
/// # Errors
/// No thread could be started, or it panicked.
pub fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    let (send, receive) = sync_channel(1);
    runtime()?.spawn(async move {
        // Nobody waits any more if the receiver is gone.
        let _ = send.send(future.await);
    });
    receive.recv().map_err(|_| io::Error::other("a request to the object store ended without a result"))
}

/// Runs something without waiting.
///
/// # Errors
/// No thread could be started.
pub fn begin(future: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    runtime()?.spawn(future);
    Ok(())
}
