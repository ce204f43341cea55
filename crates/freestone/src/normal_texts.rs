//! Types whose values are texts in one normal form: TIME WITH TIME ZONE, INET, CIDR, BIT, BIT VARYING and JSONB, with PostgreSQL's
//! rules. Equal values are equal texts; where their order is not that of the texts, [`NormalText::key`] has it.

use std::net::IpAddr;

use crate::json_text::canonical::{canonical, order_key};
use crate::times::{Zone, parse, push_offset, time_text};

/// A type of texts in a normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NormalText {
    /// `TIMETZ(digits)`: `10:00:00.5+02`. The digits are those of the fraction of a second, at most 6.
    TimeTz(u8),
    /// An address, or one within a network: `10.0.0.1`, `10.0.0.1/8`.
    Inet,
    /// A network: `10.0.0.0/8`.
    Cidr,
    /// This number of bits.
    Bit(u32),
    /// Bits, at most this number of them.
    VarBit(Option<u32>),
    /// A document of JSON: `{"a": [1, 2]}`.
    Jsonb,
}

use NormalText::{Bit, Cidr, Inet, Jsonb, TimeTz, VarBit};

const MICROSECOND_NS: i64 = 1_000;
const DAY_NS: i64 = 86_400_000_000_000;
/// The digits of a fraction of a second.
const DIGITS_MAX: u8 = 6;
/// The most bits of a type, as in PostgreSQL.
pub(crate) const BITS_MAX: u32 = 83_886_080;

/// A time of day with the offset of its zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZonedTime {
    /// Microseconds since midnight, at most a day.
    pub micros: i64,
    /// Seconds east of UTC.
    pub offset: i32,
}

impl ZonedTime {
    /// The time that a text in the normal form of TIMETZ has; `None` for another text.
    pub fn of(text: &str) -> Option<ZonedTime> {
        let written = parse(text).filter(|written| written.days.is_none())?;
        let Zone::Fixed(offset) = Zone::parse(written.zone.as_deref()?)? else { return None };
        Some(ZonedTime { micros: written.ns? / MICROSECOND_NS, offset: i32::try_from(offset).ok()? })
    }

    /// The text in the normal form; `None` if it is later than the end of a day, or its offset is not below 16 hours.
    pub fn text(self) -> Option<String> {
        let is_time = (0..=DAY_NS / MICROSECOND_NS).contains(&self.micros) && self.offset.abs() < 16 * 3600;
        is_time.then(|| {
            let mut text = time_text((self.micros * MICROSECOND_NS).unsigned_abs());
            push_offset(&mut text, self.offset.into());
            text
        })
    }
}

impl NormalText {
    /// The type of a name such as `BIT(3)`, as [`NormalText::name`] writes it.
    pub fn of_name(name: &str) -> Option<NormalText> {
        let (word, size) = match name.split_once('(') {
            Some((word, size)) => (word, Some(size.strip_suffix(')')?.parse::<u32>().ok()?)),
            None => (name, None),
        };
        Some(match (word, size) {
            ("TIMETZ", None) => TimeTz(DIGITS_MAX),
            ("TIMETZ", Some(digits)) => TimeTz(u8::try_from(digits).ok().filter(|digits| *digits <= DIGITS_MAX)?),
            ("INET", None) => Inet,
            ("CIDR", None) => Cidr,
            ("BIT", Some(bits)) => Bit(bits),
            ("VARBIT", bits) => VarBit(bits),
            ("JSONB", None) => Jsonb,
            _ => return None,
        })
    }

    /// The name in SQL.
    pub fn name(self) -> String {
        match self {
            TimeTz(DIGITS_MAX) => "TIMETZ".to_owned(),
            TimeTz(digits) => format!("TIMETZ({digits})"),
            Inet => "INET".to_owned(),
            Cidr => "CIDR".to_owned(),
            Bit(bits) => format!("BIT({bits})"),
            VarBit(None) => "VARBIT".to_owned(),
            VarBit(Some(bits)) => format!("VARBIT({bits})"),
            Jsonb => "JSONB".to_owned(),
        }
    }

    /// The name in PostgreSQL, without digits and sizes.
    pub fn postgres_name(self) -> &'static str {
        match self {
            TimeTz(_) => "time with time zone",
            Inet => "inet",
            Cidr => "cidr",
            Bit(_) => "bit",
            VarBit(_) => "bit varying",
            Jsonb => "jsonb",
        }
    }

    /// The normal form of a text. `zone` is that of times without one. A cast cuts and fills bits to their number.
    ///
    /// # Errors
    /// The reason why it is no value of this type.
    pub fn normal(self, text: &str, is_cast: bool, zone: &Zone) -> Result<String, String> {
        match self {
            TimeTz(digits) => zoned_time(text, digits, zone),
            Inet => network(text, false),
            Cidr => network(text, true),
            Bit(count) => sized(bits(text)?, count, is_cast),
            VarBit(None) => bits(text),
            VarBit(Some(most)) => {
                let mut bits = bits(text)?;
                if bits.len() > most as usize && !is_cast {
                    return Err(format!("it has {} bits, at most {most} are possible", bits.len()));
                }
                bits.truncate(most as usize);
                Ok(bits)
            }
            Jsonb => {
                let form = canonical(text).map_err(|error| error.to_string())?;
                form.ok_or_else(|| "it is malformed JSON".to_owned())
            }
        }
    }

    /// The bytes by which normal forms are ordered; `None` where the texts are in order.
    pub fn key(self, normal: &str) -> Option<Vec<u8>> {
        match self {
            TimeTz(_) => {
                let time = ZonedTime::of(normal)?;
                // By the instant, then by the zone, the eastern one first.
                let instant = time.micros - i64::from(time.offset) * 1_000_000;
                let order = |number: i64| (number.wrapping_sub(i64::MIN) as u64).to_be_bytes();
                Some([order(instant), order(-i64::from(time.offset))].concat())
            }
            Inet | Cidr => {
                let (address, length) = parts(normal, self == Cidr)?;
                let (family, all) = match address {
                    IpAddr::V4(address) => (4, address.octets().to_vec()),
                    IpAddr::V6(address) => (6, address.octets().to_vec()),
                };
                Some([vec![family], masked(&all, length), vec![length], all].concat())
            }
            Jsonb => order_key(normal),
            Bit(_) | VarBit(_) => None,
        }
    }

    /// Whether the order is not that of the texts.
    pub fn has_keys(self) -> bool {
        matches!(self, TimeTz(_) | Inet | Cidr | Jsonb)
    }
}

fn zoned_time(text: &str, digits: u8, session: &Zone) -> Result<String, String> {
    const FORM: &str = "it reads '10:00:00+02'";
    let text = text.trim();
    // Without a date, `10:00 Z`; with one, also the name of a zone.
    let written = parse(text).ok_or(FORM)?;
    let ns = written.ns.ok_or(FORM)?;
    let zone = match &written.zone {
        Some(name) => Zone::parse(name).ok_or_else(|| format!("there is no time zone {name}"))?,
        None => *session,
    };
    let local = match written.days {
        Some(days) => days.checked_mul(DAY_NS / 1_000_000_000).ok_or("its date is out of range")?,
        None => now() + zone.offset_at(now()).unwrap_or(0),
    };
    let at = if written.days.is_some() { local + ns / 1_000_000_000 } else { local };
    let offset = zone.offset_of_local(at).ok_or("its zone has no offset then")?;
    let unit = 10i64.pow(u32::from(9 - digits));
    let rounded = (ns + unit / 2) / unit * unit;
    let offset = i32::try_from(offset).map_err(|_| FORM)?;
    ZonedTime { micros: rounded / MICROSECOND_NS, offset }.text().ok_or_else(|| FORM.to_owned())
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// The address and the length of the prefix of a text.
fn parts(text: &str, is_network: bool) -> Option<(IpAddr, u8)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let (address, written) = match address.parse::<IpAddr>() {
        Ok(address) => (address, None),
        Err(_) if is_network => shortened(address)?,
        Err(_) => return None,
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let is_number = |length: &&str| !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = match length {
        Some(length) => Some(length).filter(is_number)?.parse::<u8>().ok().filter(|length| *length <= most)?,
        None => written.unwrap_or(most),
    };
    Some((address, length))
}

/// A network with fewer than four parts, such as `10.1`, whose length is that of its class or of its parts.
fn shortened(text: &str) -> Option<(IpAddr, Option<u8>)> {
    let parts = text.split('.').map(|part| part.parse::<u8>().ok()).collect::<Option<Vec<u8>>>()?;
    let mut octets = [0; 4];
    octets.get_mut(..parts.len())?.copy_from_slice(&parts);
    let class = match octets[0] {
        0..128 => 8,
        128..192 => 16,
        192..224 => 24,
        224..240 => 8,
        _ => 32,
    };
    Some((IpAddr::from(octets), Some(class.max(8 * parts.len() as u8))))
}

fn network(text: &str, is_network: bool) -> Result<String, String> {
    let (address, length) = parts(text, is_network).ok_or(match is_network {
        true => "it reads '10.0.0.0/8' or '2001:db8::/32'",
        false => "it reads '10.0.0.1', '10.0.0.1/8' or '2001:db8::1'",
    })?;
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    if is_network && masked(&bytes, length) != bytes {
        return Err(format!("it has bits set to the right of its mask of {length}"));
    }
    let is_whole = usize::from(length) == 8 * bytes.len();
    Ok(if is_whole && !is_network { address.to_string() } else { format!("{address}/{length}") })
}

/// An address without the bits behind its prefix.
fn masked(bytes: &[u8], length: u8) -> Vec<u8> {
    let kept = |at: usize| usize::from(length).saturating_sub(8 * at).min(8);
    bytes.iter().enumerate().map(|(at, byte)| (u16::from(*byte) & !(0xff >> kept(at))) as u8).collect()
}

/// The bits of `101`, `B101` or `x1F`.
fn bits(text: &str) -> Result<String, String> {
    let is_bits = |text: &str| text.bytes().all(|byte| matches!(byte, b'0' | b'1'));
    if let Some(digits) = text.strip_prefix(['x', 'X']) {
        let bits = digits.chars().map(|digit| digit.to_digit(16).map(|digit| format!("{digit:04b}")));
        return bits.collect::<Option<String>>().ok_or_else(|| "it has other than hexadecimal digits".to_owned());
    }
    let bits = text.strip_prefix(['b', 'B']).unwrap_or(text);
    if is_bits(bits) { Ok(bits.to_owned()) } else { Err("it has other digits than 0 and 1".to_owned()) }
}

fn sized(bits: String, count: u32, is_cast: bool) -> Result<String, String> {
    let count = count as usize;
    if bits.len() != count && !is_cast {
        return Err(format!("it has {} bits instead of {count}", bits.len()));
    }
    Ok(format!("{:0<count$}", &bits[..bits.len().min(count)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_one_form() {
        // As PostgreSQL 15 writes them.
        for (kind, text, expected) in [
            (TimeTz(6), "12:00+02:00", Ok("12:00:00+02")),
            (TimeTz(6), "23:59:59.9999999-15:59", Ok("24:00:00-15:59")),
            (TimeTz(6), "24:00:00 +01", Ok("24:00:00+01")),
            (TimeTz(6), "00:00:00.000001Z", Ok("00:00:00.000001+00")),
            (TimeTz(6), "10:00", Ok("10:00:00+05:30")),
            (TimeTz(6), "2024-07-01 10:00 Europe/Berlin", Ok("10:00:00+02")),
            (TimeTz(1), "10:00:00.25+00", Ok("10:00:00.3+00")),
            (TimeTz(0), "23:59:59.5+00", Ok("24:00:00+00")),
            (TimeTz(6), "10:00+01:02:03", Ok("10:00:00+01:02:03")),
            (TimeTz(6), "25:00+00", Err(())),
            (TimeTz(6), "10:00+16:00", Err(())),
            (TimeTz(6), "", Err(())),
            (Inet, "10.0.0.1/32", Ok("10.0.0.1")),
            (Inet, "10.0.0.1/8", Ok("10.0.0.1/8")),
            (Inet, " 10.0.0.1/8", Err(())),
            (Inet, "2001:DB8::1", Ok("2001:db8::1")),
            (Inet, "::1/128", Ok("::1")),
            (Inet, "::ffff:1.2.3.4/0", Ok("::ffff:1.2.3.4/0")),
            (Inet, "10.0.0.256", Err(())),
            (Inet, "10.0.0.1/33", Err(())),
            (Inet, "10.0.0.1/", Err(())),
            (Inet, "10.0.0.1/+8", Err(())),
            (Inet, "10.0", Err(())),
            (Cidr, "10.0.0.0/8", Ok("10.0.0.0/8")),
            (Cidr, "10.1.2.3", Ok("10.1.2.3/32")),
            (Cidr, "10", Ok("10.0.0.0/8")),
            (Cidr, "192.168.1", Ok("192.168.1.0/24")),
            (Cidr, "128.1", Ok("128.1.0.0/16")),
            (Cidr, "2001:db8::/32", Ok("2001:db8::/32")),
            (Cidr, "10.0.0.1/8", Err(())),
            (Cidr, "10.0.0.0.0", Err(())),
            (Bit(3), "101", Ok("101")),
            (Bit(3), "1011", Err(())),
            (Bit(8), "x1F", Ok("00011111")),
            (VarBit(None), "", Ok("")),
            (VarBit(Some(2)), "b10", Ok("10")),
            (VarBit(Some(2)), "101", Err(())),
            (VarBit(None), "102", Err(())),
            (Jsonb, "{\"b\":1,\"a\":[]}", Ok("{\"a\": [], \"b\": 1}")),
            (Jsonb, "{", Err(())),
        ] {
            let normal = kind.normal(text, false, &Zone::Fixed(19_800));
            assert_eq!(normal.as_deref().map_err(|_| ()), expected, "{} {text}", kind.name());
            if let Ok(normal) = normal {
                assert_eq!(kind.normal(&normal, false, &Zone::Fixed(0)), Ok(normal.clone()), "{normal}");
                assert_eq!(kind.key(&normal).is_some(), kind.has_keys(), "{normal}");
            }
            assert_eq!(NormalText::of_name(&kind.name()), Some(kind));
        }
        assert_eq!(Bit(3).normal("1011", true, &Zone::Fixed(0)).as_deref(), Ok("101"));
        assert_eq!(Bit(3).normal("1", true, &Zone::Fixed(0)).as_deref(), Ok("100"));
        assert_eq!(VarBit(Some(2)).normal("101", true, &Zone::Fixed(0)).as_deref(), Ok("10"));
    }

    #[test]
    fn keys_are_in_postgresqls_order() {
        for (kind, sorted) in [
            (
                TimeTz(6),
                &["00:00:00+02", "12:00:00+02", "10:00:00+00", "08:00:00-02", "10:00:01+00", "24:00:00-15:59"][..],
            ),
            (
                Inet,
                &[
                    "0.0.0.0/0",
                    "10.0.0.0/8",
                    "10.0.0.1/8",
                    "10.0.0.0/16",
                    "10.0.0.1",
                    "10.0.0.2",
                    "10.128.0.0/9",
                    "::1",
                    "ff::/16",
                ],
            ),
            (Cidr, &["10.0.0.0/8", "10.0.0.0/9", "10.1.0.0/16", "11.0.0.0/8"]),
        ] {
            let keys: Vec<_> = sorted.iter().map(|text| kind.key(text)).collect();
            assert!(keys.iter().all(Option::is_some) && keys.is_sorted(), "{}", kind.name());
        }
    }
}
