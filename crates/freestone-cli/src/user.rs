//! `freestone user`: the users file of `freestone serve`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use freestone_server::Users;

use crate::args::UserCommand;
use crate::failure::{Failure, note};
use crate::terminal::{self, EchoOff};

pub fn run(command: UserCommand) -> Result<(), Failure> {
    match command {
        UserCommand::Add { name, role, users } => {
            let mut all = if users.exists() { Users::load(&users)? } else { Users::default() };
            let is_new = all.get(&name).is_none();
            let password = password(&name)?;
            all.add(&name, role, &password)?;
            all.save(&users)?;
            note(format_args!("{} {name} as {role}", if is_new { "added" } else { "changed" }));
            Ok(())
        }
        UserCommand::Remove { name, users } => {
            let mut all = Users::load(&users)?;
            if !all.remove(&name) {
                return Err(no_user(&name, &users));
            }
            all.save(&users)?;
            note(format_args!("removed {name}"));
            Ok(())
        }
        UserCommand::List { users } => list(&Users::load(&users)?),
    }
}

fn no_user(name: &str, users: &Path) -> Failure {
    let hint = format!("freestone user list --users {}", users.display());
    Failure::with_hint(format!("no user {name} in {}", users.display()), hint)
}

fn list(users: &Users) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    for (name, user) in users.iter() {
        if writeln!(out, "{name}\t{}", user.role).is_err() {
            return Err(Failure::BrokenPipe);
        }
    }
    Ok(())
}

/// A password from the terminal, which is entered twice, or from the first line of standard input.
fn password(name: &str) -> Result<String, Failure> {
    let unreadable = |error: io::Error| Failure::error(format!("cannot read the password: {error}"));
    if !io::stdin().is_terminal() {
        return line().map_err(unreadable);
    }
    let _silence = EchoOff::start().map_err(unreadable)?;
    let first = asked(&format!("password of {name}: ")).map_err(unreadable)?;
    let second = asked("again: ").map_err(unreadable)?;
    if first == second { Ok(first) } else { Err(Failure::error("the passwords differ")) }
}

/// Reads a line from the terminal at standard input without echo.
pub fn ask(prompt: &str) -> Result<String, Failure> {
    let unreadable = |error: io::Error| Failure::error(format!("cannot read the password: {error}"));
    let _lent = terminal::lend();
    let _silence = EchoOff::start().map_err(unreadable)?;
    asked(prompt).map_err(unreadable)
}

fn asked(prompt: &str) -> io::Result<String> {
    eprint!("{prompt}");
    let answer = line();
    eprintln!();
    answer
}

fn line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}
