//! Shared memory for clients on the server's machine: access, and returning it to the system.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net as unix;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Acceptor, Session, lock};
use crate::auth::random;
use crate::error::{Result, WireError};
use crate::memory::arena::Arena;
use crate::memory::{HANDOVER, ServerMemory, own_user};

/// The maximum number of clients to which memory is passed at a time, because every process of the machine can connect.
const HANDOVERS: usize = 64;
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// The time after which unused memory is returned to the system.
const IDLE: Duration = Duration::from_secs(60);

fn io() -> impl FnOnce(std::io::Error) -> WireError {
    WireError::io("shared memory")
}

impl Acceptor {
    /// Passes descriptors of shared memory to clients with a session's key, at the returned address. The address is
    /// empty if there can be no such socket.
    pub(super) async fn offer_memory(self: Arc<Self>) -> String {
        let name = format!("freestone-{:032x}", u128::from_le_bytes(random()));
        let bound = unix::SocketAddr::from_abstract_name(&name)
            .and_then(|address| unix::UnixListener::bind_addr(&address))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .and_then(UnixListener::from_std);
        let Ok(listener) = bound else { return String::new() };
        let (acceptor, places) = (Arc::downgrade(&self), Arc::new(Semaphore::new(HANDOVERS)));
        tokio::spawn(async move {
            while let Ok(place) = places.clone().acquire_owned().await {
                let accepted = listener.accept().await;
                let Some(acceptor) = acceptor.upgrade() else { return };
                match accepted {
                    Ok((socket, _)) => _ = tokio::spawn(acceptor.share(socket, place)),
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        });
        name
    }

    /// Passes memory, and waits until the client no longer uses it.
    async fn share(self: Arc<Self>, mut socket: UnixStream, place: OwnedSemaphorePermit) -> Result<()> {
        let session = tokio::time::timeout(HANDOVER, self.find(&mut socket)).await;
        let session = session.map_err(|_| WireError::Authentication("no key came".into()))??;
        let arena = self.arena(&session.user, socket.peer_cred().map_err(io())?.uid());
        drop(self);
        let socket = socket.into_std().map_err(io())?;
        let work = move || hand_over(&session, arena, socket);
        let handed = tokio::task::spawn_blocking(work).await.map_err(|e| WireError::Config(e.to_string()))?;
        drop(place);
        let (memory, socket) = handed.map_err(io())?;
        // The client closes the socket when it no longer uses the memory, and sends nothing before.
        let left = async {
            socket.set_nonblocking(true)?;
            UnixStream::from_std(socket)?.read(&mut [0]).await
        };
        let left = left.await.map_err(io());
        memory.leave();
        left.map(|_| ())
    }

    async fn find(&self, socket: &mut UnixStream) -> Result<Arc<Session>> {
        let (id, mut key) = (socket.read_u64_le().await.map_err(io())?, [0; 32]);
        socket.read_exact(&mut key).await.map_err(io())?;
        self.session(id, &key)
    }

    /// The arena for a user's sessions from processes of an operating-system user; `None` if there is none. A process
    /// that can read it can make the system allocate all of it. It accepts an arena only from its own user or root.
    fn arena(self: &Arc<Self>, user: &str, system_user: u32) -> Option<Arc<Arena>> {
        let is_taken = own_user() == 0 || own_user() == system_user;
        if self.budget.units == 0 || !is_taken {
            return None;
        }
        let mut arenas = lock(&self.arenas);
        let key = (user.to_owned(), system_user);
        if let Some(arena) = arenas.get(&key).and_then(Weak::upgrade) {
            return Some(arena);
        }
        // If there can be none, chunks are copied.
        let arena = Arena::create(self.budget.clone()).ok()?;
        arenas.retain(|_, arena| arena.strong_count() > 0);
        arenas.insert(key, Arc::downgrade(&arena));
        tokio::spawn(look_after(arena.clone(), Arc::downgrade(self)));
        Some(arena)
    }
}

fn hand_over(
    session: &Session,
    arena: Option<Arc<Arena>>,
    mut socket: unix::UnixStream,
) -> std::io::Result<(Arc<ServerMemory>, unix::UnixStream)> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(HANDOVER))?;
    let memory = Arc::new(ServerMemory::hand_over(session.chunk_bytes_max, arena, &mut socket)?);
    if session.memory.set(memory.clone()).is_err() {
        return Err(std::io::Error::other("the session has its memory"));
    }
    // The client continues only now, so that its first result uses the memory.
    std::io::Write::write_all(&mut socket, &[1]).inspect_err(|_| memory.leave())?;
    Ok((memory, socket))
}

/// Returns memory to the system when it was not used for a while, and drops the arena when nobody has it.
async fn look_after(arena: Arc<Arena>, acceptor: Weak<Acceptor>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let trimmed = arena.clone();
        let is_used = tokio::task::spawn_blocking(move || trimmed.trim()).await.unwrap_or(false);
        let Some(acceptor) = acceptor.upgrade() else { return };
        // While the lock is held, nobody can find it.
        let arenas = lock(&acceptor.arenas);
        if !is_used && Arc::strong_count(&arena) == 1 {
            drop(arena);
            drop(arenas);
            return;
        }
    }
}
