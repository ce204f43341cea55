//! The modes of the terminal at standard input.
//!
//! A terminal in its usual mode changes what is typed while nobody reads: it cuts long lines, turns `\r` into `\n`, and
//! takes some characters for commands to itself. So while the shell runs a statement, the terminal is *held*: it keeps
//! what is typed or pasted, as it is, for the next prompt. Other programs get the terminal in its usual mode ([`lend`]).

use std::io;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use console::Term;

/// The terminals in which lines cannot be edited, as the line editor knows them.
const PLAIN: [&str; 3] = ["dumb", "cons25", "emacs"];

/// The usual mode, while the terminal is held.
static USUAL: Mutex<Option<libc::termios>> = Mutex::new(None);

/// Whether the terminal understands no escape sequences.
pub fn is_plain() -> bool {
    std::env::var("TERM").is_ok_and(|term| PLAIN.iter().any(|plain| plain.eq_ignore_ascii_case(&term)))
}

/// The number of columns and lines of the terminal on standard output, if it is one. They change with its window.
pub fn size() -> Option<(usize, usize)> {
    Term::stdout().size_checked().map(|(lines, columns)| (columns.into(), lines.into()))
}

/// Forgets what was typed and not yet read.
pub fn discard_input() {
    // SAFETY: the call has no memory arguments.
    unsafe { libc::tcflush(libc::STDIN_FILENO, libc::TCIFLUSH) };
}

/// Whether there is input that was not read.
pub fn has_input() -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the pointer is to an integer, which a successful call fills.
    unsafe { libc::ioctl(libc::STDIN_FILENO, libc::FIONREAD, &raw mut bytes) == 0 && bytes > 0 }
}

/// Holds the terminal until it is dropped.
pub struct Held(());

impl Held {
    /// `None` if there is nothing to hold: lines are edited by the terminal itself.
    pub fn start() -> Option<Held> {
        if is_plain() {
            return None;
        }
        let usual = mode().ok()?;
        let mut held = usual;
        held.c_iflag &= !(libc::ICRNL | libc::INLCR | libc::IGNCR | libc::IXON);
        held.c_lflag &= !(libc::ICANON | libc::ECHO | libc::IEXTEN);
        held.c_cc[libc::VMIN] = 1;
        held.c_cc[libc::VTIME] = 0;
        set_mode(&held).ok()?;
        *usual_mode() = Some(usual);
        Some(Held(()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal its usual mode, before the process ends.
pub fn restore() {
    if let Some(usual) = usual_mode().take() {
        let _ = set_mode(&usual);
    }
}

/// Until this is dropped, the terminal has its usual mode, for another program or for a question.
#[must_use]
pub struct Lent(Option<libc::termios>);

pub fn lend() -> Lent {
    let usual = *usual_mode();
    let held = usual.and_then(|usual| {
        let held = mode().ok()?;
        set_mode(&usual).ok()?;
        Some(held)
    });
    Lent(held)
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            let _ = set_mode(&held);
        }
    }
}

/// Turns off the terminal's echo until this is dropped.
pub struct EchoOff(libc::termios);

impl EchoOff {
    pub fn start() -> io::Result<Self> {
        let settings = mode()?;
        let mut silent = settings;
        silent.c_lflag &= !libc::ECHO;
        set_mode(&silent)?;
        Ok(EchoOff(settings))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        let _ = set_mode(&self.0);
    }
}

fn usual_mode() -> MutexGuard<'static, Option<libc::termios>> {
    USUAL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn mode() -> io::Result<libc::termios> {
    let mut settings = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the pointer is to a termios, which a successful call fills.
    if unsafe { libc::tcgetattr(libc::STDIN_FILENO, settings.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above was successful, so it has filled the termios.
    Ok(unsafe { settings.assume_init() })
}

fn set_mode(settings: &libc::termios) -> io::Result<()> {
    // SAFETY: the pointer is to a termios that lives until the call returns.
    match unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, settings) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
