//! An ordinary file in place of persistent memory, and the latencies that are added to it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How an ordinary file takes the place of persistent memory. It survives the end of a process, but no power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Emulation {
    /// What is added for each line of 64 bytes that is read.
    pub read: Duration,
    /// What is added for each line that is flushed.
    pub write: Duration,
}

/// The forms in which it is written.
const EMULATION_FORM: &str = "emulated, emulated:300ns (per line that is read or flushed) or emulated:300ns,100ns \
                                  (per line that is read, and per line that is flushed)";
/// A longer latency would be a mistake: a block has 512 lines.
const LATENCY_MAX: Duration = Duration::from_micros(100);

impl Emulation {
    /// Whether it adds time.
    pub(super) fn is_delayed(&self) -> bool {
        !(self.read.is_zero() && self.write.is_zero())
    }
}

impl FromStr for Emulation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a way to use persistent memory: it is {EMULATION_FORM}");
        let latencies = match text.strip_prefix("emulated").ok_or_else(wrong)? {
            "" => return Ok(Emulation::default()),
            rest => rest.strip_prefix(':').ok_or_else(wrong)?,
        };
        let mut parsed = latencies.splitn(2, ',').map(|part| latency(part.trim()));
        let read = parsed.next().flatten().ok_or_else(wrong)?;
        let write = parsed.next().unwrap_or(Some(read)).ok_or_else(wrong)?;
        if read.max(write) > LATENCY_MAX {
            return Err(format!("'{text}' adds more than {} µs per line", LATENCY_MAX.as_micros()));
        }
        Ok(Emulation { read, write })
    }
}

fn latency(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "ns" => Some(Duration::from_nanos(number)),
        "us" | "µs" => Some(Duration::from_micros(number)),
        _ => None,
    }
}

impl fmt::Display for Emulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_delayed() {
            true => write!(f, "emulated:{}ns,{}ns", self.read.as_nanos(), self.write.as_nanos()),
            false => f.write_str("emulated"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let ns = Duration::from_nanos;
        for (text, read, write) in [
            ("emulated", 0, 0),
            ("emulated:300ns", 300, 300),
            ("emulated:300ns,100ns", 300, 100),
            ("emulated:0ns, 1us", 0, 1000),
        ] {
            let emulation: Emulation = text.parse().unwrap();
            assert_eq!(emulation, Emulation { read: ns(read), write: ns(write) }, "{text}");
            assert_eq!(emulation.to_string().parse(), Ok(emulation));
        }
        for text in [
            "",
            "real",
            "emulated:",
            "emulated:300",
            "emulated300ns",
            "emulated:1s",
            "emulated:-1ns",
            "emulated:1ns,",
            "emulated:1ns,2ns,3ns",
            "emulated:101us",
            "emulated:99999999999999999999ns",
        ] {
            let error = text.parse::<Emulation>().unwrap_err();
            assert!(error.starts_with(&format!("'{text}'")), "{error}");
        }
    }
}
