//! Time zones as PostgreSQL's clients name them. Offsets are those of POSIX, which count westwards: `-02:00`, `UTC-2` and
//! `<+02>-02` are two hours east of UTC. The engine's offsets count eastwards; so do numbers of hours (`SET TIME ZONE 2`).

/// The engine's name of the zone that a client names.
pub fn of_client(name: &str) -> String {
    posix_offset(name.trim()).unwrap_or_else(|| name.to_owned())
}

/// Whether a client names an offset of POSIX.
pub fn is_posix(name: &str) -> bool {
    posix_offset(name.trim()).is_some()
}

/// PostgreSQL's name of an offset of the engine; other names are the same.
pub fn shown(engine: &str) -> String {
    let is_offset = |(sign, digits): &(&str, &str)| ["+", "-"].contains(sign) && digits.contains(':');
    let Some((sign, digits)) = engine.split_at_checked(1).filter(is_offset) else { return engine.to_owned() };
    let digits = digits.strip_suffix(":00").unwrap_or(digits);
    format!("<{sign}{digits}>{}{digits}", if sign == "+" { '-' } else { '+' })
}

/// The offset of the engine, such as `+02:00`, that an offset of POSIX is.
fn posix_offset(name: &str) -> Option<String> {
    let offset = match name.strip_prefix('<') {
        Some(rest) => rest.split_once('>')?.1,
        None => name.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    // A number alone is one of hours, and fewer than three letters are no name.
    let letters = name.len() - offset.len();
    if letters < 3 && (letters > 0 || !offset.contains(':')) {
        return None;
    }
    let (is_west, digits) = match offset.split_at_checked(1)? {
        ("+", digits) => (true, digits),
        ("-", digits) => (false, digits),
        _ => (true, offset),
    };
    let mut parts = digits.split(':');
    let mut part = |most: u32| -> Option<u32> {
        let text = parts.next().unwrap_or("0");
        let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten().filter(|value| *value <= most)
    };
    let (hours, minutes, seconds) = (part(24)?, part(59)?, part(59)?);
    (seconds == 0 && parts.next().is_none())
        .then(|| format!("{}{hours:02}:{minutes:02}", if is_west && hours + minutes > 0 { '-' } else { '+' }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_posix_count_westwards() {
        for (client, engine) in [
            ("-02:00", "+02:00"),
            ("+07:00", "-07:00"),
            ("05:30", "-05:30"),
            ("GMT-02:00", "+02:00"),
            ("UTC+3", "-03:00"),
            ("<+02>-02", "+02:00"),
            ("UTC0", "+00:00"),
            ("-3.5", "-3.5"),
            ("2", "2"),
            ("Europe/Berlin", "Europe/Berlin"),
            ("Etc/GMT+2", "Etc/GMT+2"),
            ("EST5EDT", "EST5EDT"),
            ("UTC", "UTC"),
            ("", ""),
            ("-02:00:00:00", "-02:00:00:00"),
            ("+99:00", "+99:00"),
            ("<+02", "<+02"),
        ] {
            assert_eq!(of_client(client), engine, "{client}");
        }
        for (engine, expected) in
            [("+02:00", "<+02>-02"), ("-03:30", "<-03:30>+03:30"), ("Europe/Berlin", "Europe/Berlin"), ("-3.5", "-3.5")]
        {
            assert_eq!(shown(engine), expected);
            assert_eq!(of_client(&shown(engine)), engine);
        }
    }
}
