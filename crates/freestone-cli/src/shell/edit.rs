//! `\e`: a text in the editor of the user.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::terminal;

/// The editor, unless the environment names one.
const EDITOR: &str = "vi";

/// Opens a file in the editor; without a name, `text`. Returns the text as it is then, or `None` if it is unchanged.
pub fn edit(file: &str, text: &str) -> Result<Option<String>, Failure> {
    if !file.is_empty() {
        let path = Path::new(file);
        let before = fs::read(path).ok();
        let after = edited(path)?;
        return Ok(Some(after).filter(|after| before.as_deref() != Some(after.as_bytes())));
    }
    let failed = |error: io::Error| Failure::error(format!("cannot write a temporary file: {error}"));
    let mut file = tempfile::Builder::new().prefix("freestone-").suffix(".sql").tempfile().map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(failed)?;
    let after = edited(file.path())?;
    Ok(Some(after).filter(|after| after != text))
}

/// The content of a file after the editor has ended.
fn edited(path: &Path) -> Result<String, Failure> {
    let named = |name: &str| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| EDITOR.into());
    let lent = terminal::lend();
    let ended = Command::new("sh").args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(path).status();
    drop(lent);
    let hint = "set VISUAL or EDITOR to the command of an editor";
    match ended {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(Failure::with_hint(format!("the editor `{editor}` ended with {status}"), hint)),
        Err(error) => return Err(Failure::with_hint(format!("cannot start the editor `{editor}`: {error}"), hint)),
    }
    fs::read_to_string(path).map_err(|error| Failure::error(format!("cannot read {}: {error}", path.display())))
}
