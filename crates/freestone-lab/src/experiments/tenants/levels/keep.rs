//! `freestone-lab keep -- PROGRAM …`: a program that ends with its wrapper's standard input. The first process of a
//! container is this wrapper, because the kernel's signal at a parent's death does not reach into containers.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Runs the program, and returns its exit status.
///
/// # Errors
/// The program cannot be started.
pub fn keep(arguments: &[std::ffi::OsString]) -> std::io::Result<i32> {
    let [program, rest @ ..] = arguments else {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "keep needs a program, after --"));
    };
    std::thread::spawn(|| {
        let mut buffer = [0; 256];
        while std::io::stdin().read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
        // With the first process of a container, the kernel ends all others.
        std::process::exit(0);
    });
    let mut command = Command::new(program);
    command.args(rest).stdin(std::process::Stdio::null());
    // SAFETY: a system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let status = command.status()?;
    Ok(status.code().unwrap_or(1))
}
