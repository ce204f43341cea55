//! From an accepted connection to an authenticated user: TLS, the startup message, SCRAM.

use std::sync::Arc;

use freestone_wire::WireError;
use freestone_wire::auth::ServerScram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::Stream;
use super::error::PgError;
use super::frame::{self, FrameError, Message, Startup};
use super::reply::Replies;
use crate::options::is_loopback;
use crate::shared::{FULL, Shared, Visit};
use crate::sqlstate;
use crate::tls;
use crate::users::Role;

/// The first byte of a client that begins with TLS, without requesting it first.
const TLS_HANDSHAKE: u8 = 0x16;
const MECHANISM: &str = "SCRAM-SHA-256";
/// The GS2 headers without channel binding. Over TLS, clients send `y` if the server offers no channel binding.
const UNBOUND: [&str; 2] = ["n,,", "y,,"];

/// An authenticated client.
pub struct Client {
    pub stream: Box<dyn Stream>,
    pub user: String,
    pub role: Role,
    /// The parameters of the startup message, except the user.
    pub parameters: Vec<(String, String)>,
}

/// The reason why a client could not log in. It never contains the password.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("{}", .0.message)]
    Refused(PgError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl From<PgError> for LoginError {
    fn from(error: PgError) -> Self {
        LoginError::Refused(error)
    }
}

type Result<T, E = LoginError> = std::result::Result<T, E>;

/// Authenticates a client. `None` if it sent a request to cancel, or has disconnected.
pub async fn enter(stream: TcpStream, shared: &Arc<Shared>, visit: &mut Visit) -> Result<Option<Client>> {
    let is_local = is_loopback(stream.peer_addr()?.ip());
    let Some((mut stream, startup, encrypted)) = greet(stream, shared).await? else { return Ok(None) };
    let admitted = match startup {
        Startup::Cancel { number, key } => {
            if let (Ok(number), Ok(key)) = (u64::try_from(number), key.as_slice().try_into()) {
                shared.sessions.cancel(number, key);
            }
            // Over TLS, a client waits for close_notify, and takes a mere end for an attack. It may have left.
            let _ = stream.shutdown().await;
            return Ok(None);
        }
        Startup::Start { .. } if !encrypted && !is_local => Err(PgError::fatal(
            sqlstate::INVALID_AUTHORIZATION_SPECIFICATION,
            "connections from other machines need TLS",
        )
        .with_hint("use sslmode=require")
        .into()),
        Startup::Start { minor, parameters } => admit(&mut stream, shared, visit, minor, parameters).await,
        Startup::Ssl | Startup::Gss => Err(FrameError::Malformed("encryption was requested twice").into()),
    };
    match admitted {
        Ok((user, role, parameters)) => Ok(Some(Client { stream, user, role, parameters })),
        Err(error) => {
            tell(&mut stream, &error).await;
            Err(error)
        }
    }
}

/// Answers requests for encryption, and returns the startup message that follows.
async fn greet(mut stream: TcpStream, shared: &Arc<Shared>) -> Result<Option<(Box<dyn Stream>, Startup, bool)>> {
    let mut first = [0; 1];
    if stream.peek(&mut first).await? == 0 {
        return Ok(None);
    }
    if first[0] == TLS_HANDSHAKE
        && let Some(config) = &shared.tls
    {
        return encrypted(stream, config).await;
    }
    // A client may request each kind of encryption once.
    for _ in 0..3 {
        let startup = match frame::read_startup(&mut stream).await {
            Ok(Some(startup)) => startup,
            Ok(None) => return Ok(None),
            Err(error) => {
                let error = LoginError::from(error);
                tell(&mut stream, &error).await;
                return Err(error);
            }
        };
        match (startup, &shared.tls) {
            (Startup::Ssl, Some(config)) => {
                stream.write_all(b"S").await?;
                return encrypted(stream, config).await;
            }
            (Startup::Ssl | Startup::Gss, _) => stream.write_all(b"N").await?,
            (startup, _) => return Ok(Some((Box::new(stream), startup, false))),
        }
    }
    Err(FrameError::Malformed("encryption was requested too often").into())
}

async fn encrypted(
    stream: TcpStream,
    config: &Arc<rustls::ServerConfig>,
) -> Result<Option<(Box<dyn Stream>, Startup, bool)>> {
    let acceptor = TlsAcceptor::from(tls::with_protocols(config, &[b"postgresql"]));
    let mut stream = acceptor.accept(stream).await?;
    let startup = frame::read_startup(&mut stream).await?;
    Ok(startup.map(|startup| (Box::new(stream) as Box<dyn Stream>, startup, true)))
}

async fn admit(
    stream: &mut Box<dyn Stream>,
    shared: &Arc<Shared>,
    visit: &mut Visit,
    minor: u16,
    parameters: Vec<(String, String)>,
) -> Result<(String, Role, Vec<(String, String)>)> {
    let user = parameters.iter().find(|(name, _)| name == "user").map(|(_, user)| user.clone());
    let Some(user) = user.filter(|user| !user.is_empty()) else {
        return Err(PgError::fatal(sqlstate::INVALID_AUTHORIZATION_SPECIFICATION, "the startup names no user").into());
    };
    let unknown: Vec<&str> =
        parameters.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with("_pq_.")).collect();
    let mut replies = Replies::default();
    if minor > 0 || !unknown.is_empty() {
        replies.negotiate(&unknown);
    }
    if !shared.authority.admits_anybody() {
        authenticate(stream, shared, &user, &mut replies).await?;
    }
    let role = shared.authority.role(&user).ok_or_else(wrong)?;
    if !visit.admit(role) {
        return Err(PgError::fatal(sqlstate::TOO_MANY_CONNECTIONS, FULL).with_hint("try again later").into());
    }
    replies.authentication(0, &[]);
    stream.write_all(&replies.bytes).await?;
    Ok((user, role, parameters))
}

/// Authenticates the client by SCRAM-SHA-256.
async fn authenticate(
    stream: &mut Box<dyn Stream>,
    shared: &Arc<Shared>,
    user: &str,
    replies: &mut Replies,
) -> Result<()> {
    replies.authentication(10, format!("{MECHANISM}\0\0").as_bytes());
    send(stream, replies).await?;
    let initial = password(stream).await?;
    let mut parts = initial.splitn(2, |byte| *byte == 0);
    let (mechanism, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let first = rest.get(4..).and_then(|first| std::str::from_utf8(first).ok());
    let Some(first) = first.filter(|_| mechanism == MECHANISM.as_bytes()) else {
        return Err(PgError::fatal(
            sqlstate::INVALID_AUTHORIZATION_SPECIFICATION,
            "the client does not authenticate by SCRAM-SHA-256",
        )
        .into());
    };
    let verifier = shared.authority.verifier(user);
    let failed = |error: WireError| match error {
        WireError::Authentication(_) => wrong(),
        other => PgError::fatal(sqlstate::PROTOCOL_VIOLATION, other.to_string()),
    };
    let secret = &shared.authority.secret;
    let (exchange, challenge) = ServerScram::challenge(first, &UNBOUND, user, verifier, secret).map_err(failed)?;
    replies.authentication(11, challenge.as_bytes());
    send(stream, replies).await?;
    let last = password(stream).await?;
    let checked = exchange.check(&String::from_utf8_lossy(&last), &[]);
    match checked {
        Ok(proof) => {
            replies.authentication(12, proof.as_bytes());
            Ok(())
        }
        Err(error) => {
            tokio::time::sleep(shared.login_failed(user)).await;
            Err(failed(error).into())
        }
    }
}

fn wrong() -> PgError {
    PgError::fatal(sqlstate::INVALID_PASSWORD, "the user or the password is not right")
}

async fn password(stream: &mut Box<dyn Stream>) -> Result<Vec<u8>> {
    match frame::read_unproven(stream).await? {
        Some(Message::Password(bytes)) => Ok(bytes),
        Some(_) => Err(FrameError::Malformed("a password was expected").into()),
        None => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
    }
}

async fn send(stream: &mut Box<dyn Stream>, replies: &mut Replies) -> Result<()> {
    stream.write_all(&replies.bytes).await?;
    stream.flush().await?;
    replies.bytes.clear();
    Ok(())
}

/// Sends the error to the client, which may have disconnected.
async fn tell(stream: &mut (impl AsyncWriteExt + AsyncReadExt + Unpin), error: &LoginError) {
    let mut replies = Replies::default();
    match error {
        LoginError::Refused(error) => replies.error(error),
        LoginError::Frame(FrameError::Io(_)) | LoginError::Io(_) => return,
        LoginError::Frame(error) => replies.error(&PgError::fatal(sqlstate::PROTOCOL_VIOLATION, error.to_string())),
    }
    let _ = stream.write_all(&replies.bytes).await;
    let _ = stream.shutdown().await;
}
