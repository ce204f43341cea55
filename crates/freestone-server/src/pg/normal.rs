//! Texts in a normal form, TIMETZ, INET, CIDR and BIT, in PostgreSQL's binary formats, and as values of parameters.
//!
//! ```text
//! timetz: microseconds since midnight i64, seconds west of UTC i32
//! inet, cidr: family u8 (2 = IPv4, 3 = IPv6), bits of the prefix u8, is a network u8, bytes of the address u8, address
//! bit, varbit: number of bits i32, then the bits, filled with zeros to whole bytes
//! ```

use std::net::IpAddr;

use datafusion::scalar::ScalarValue;
use freestone::{DateOrder, NormalText, TextOf, Zone, ZonedTime};

use super::types::{self, Type};

const IPV4: u8 = 2;
const IPV6: u8 = 3;

/// Bytes of which there is a certain number.
///
/// # Errors
///
/// There are more or fewer.
pub fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], String> {
    bytes.try_into().map_err(|_| format!("it has {} bytes instead of {N}", bytes.len()))
}

/// Writes the binary form of a text in the normal form of its type.
pub fn write_binary(out: &mut Vec<u8>, text: &str, of: Type) {
    match of {
        types::TIMETZ => {
            let time = ZonedTime::of(text).unwrap_or(ZonedTime { micros: 0, offset: 0 });
            out.extend(time.micros.to_be_bytes());
            out.extend((-time.offset).to_be_bytes());
        }
        types::INET | types::CIDR => write_network(out, text, of == types::CIDR),
        _ => {
            out.extend(i32::try_from(text.len()).unwrap_or(i32::MAX).to_be_bytes());
            let byte = |bits: &[u8]| bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | (bit & 1) << (7 - at));
            out.extend(text.as_bytes().chunks(8).map(byte));
        }
    }
}

fn write_network(out: &mut Vec<u8>, text: &str, is_network: bool) {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let (family, bytes) = match address.parse() {
        Ok(IpAddr::V4(address)) => (IPV4, address.octets().to_vec()),
        Ok(IpAddr::V6(address)) => (IPV6, address.octets().to_vec()),
        Err(_) => (IPV4, vec![0; 4]),
    };
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(8 * bytes.len() as u8);
    out.extend([family, length, u8::from(is_network), bytes.len() as u8]);
    out.extend(bytes);
}

/// The type of texts that a type of PostgreSQL is. Bits of a parameter have any number.
fn kind(of: Type) -> NormalText {
    match of {
        types::TIMETZ => NormalText::TimeTz(6),
        types::INET => NormalText::Inet,
        types::CIDR => NormalText::Cidr,
        _ => NormalText::VarBit(None),
    }
}

/// The value of a text. `zone` is that of times without one.
///
/// # Errors
///
/// The reason why it is none of this type.
pub fn of_text(text: &str, of: Type, zone: &Zone, order: Option<DateOrder>) -> Result<ScalarValue, String> {
    let order = order.filter(|_| of == types::TIMETZ);
    let plain = order.and_then(|order| freestone::plain_text(text, TextOf::TimeTz, order, zone));
    kind(of).normal(plain.as_deref().unwrap_or(text), false, zone).map(|text| ScalarValue::Utf8View(Some(text)))
}

/// The value of the binary form.
///
/// # Errors
///
/// The reason why it is none of this type.
pub fn of_binary(bytes: &[u8], of: Type) -> Result<ScalarValue, String> {
    let text = match of {
        types::TIMETZ => {
            let bytes: [u8; 12] = fixed(bytes)?;
            let (micros, west) = bytes.split_at(8);
            let offset = i32::from_be_bytes(fixed(west)?).checked_neg().ok_or("its zone is out of range")?;
            let time = ZonedTime { micros: i64::from_be_bytes(fixed(micros)?), offset };
            time.text().ok_or("it is later than the end of a day, or its zone is 16 hours away from UTC")?
        }
        types::INET | types::CIDR => network(bytes)?,
        _ => {
            let (count, bytes) = bytes.split_first_chunk::<4>().ok_or("it ends early")?;
            let count = usize::try_from(i32::from_be_bytes(*count)).map_err(|_| "its number of bits is negative")?;
            if count.div_ceil(8) != bytes.len() {
                return Err(format!("it has {} bytes for {count} bits", bytes.len()));
            }
            let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
            bits[..count].to_owned()
        }
    };
    // A network may have bits to the right of its mask.
    of_text(&text, of, &Zone::Fixed(0), None)
}

fn network(bytes: &[u8]) -> Result<String, String> {
    let (head, bytes) = bytes.split_first_chunk::<4>().ok_or("it ends early")?;
    let address = match (head[0], usize::from(head[3]) == bytes.len()) {
        (IPV4, true) => IpAddr::from(fixed::<4>(bytes)?),
        (IPV6, true) => IpAddr::from(fixed::<16>(bytes)?),
        (_, false) => return Err(format!("it has {} bytes instead of {}", bytes.len(), head[3])),
        (family, _) => return Err(format!("there is no family {family} of addresses")),
    };
    Ok(format!("{address}/{}", head[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_their_binary_form() {
        for (of, text, bytes) in [
            (types::TIMETZ, "00:00:01+02", &[0, 0, 0, 0, 0, 0x0f, 0x42, 0x40, 0xff, 0xff, 0xe3, 0xe0][..]),
            (types::INET, "10.0.0.1", &[2, 32, 0, 4, 10, 0, 0, 1]),
            (types::INET, "10.0.0.1/8", &[2, 8, 0, 4, 10, 0, 0, 1]),
            (types::CIDR, "10.0.0.0/8", &[2, 8, 1, 4, 10, 0, 0, 0]),
            (types::CIDR, "::/0", &[3, 0, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            (types::BIT, "1010000011", &[0, 0, 0, 10, 0b1010_0000, 0b1100_0000]),
            (types::VARBIT, "", &[0, 0, 0, 0]),
        ] {
            let mut out = vec![];
            write_binary(&mut out, text, of);
            assert_eq!(out, bytes, "{text}");
            assert_eq!(of_binary(bytes, of), Ok(ScalarValue::Utf8View(Some(text.to_owned()))), "{text}");
            for end in 0..bytes.len() {
                assert!(of_binary(&bytes[..end], of).is_err(), "{text} {end}");
            }
        }
        for (of, bytes) in [
            (types::INET, &[2, 33, 0, 4, 10, 0, 0, 1][..]),
            (types::INET, &[7, 8, 0, 4, 10, 0, 0, 1]),
            (types::CIDR, &[2, 8, 1, 4, 10, 0, 0, 1]),
            (types::BIT, &[0xff, 0xff, 0xff, 0xff]),
            (types::TIMETZ, &[0x7f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            (types::TIMETZ, &[0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0]),
        ] {
            assert!(of_binary(bytes, of).is_err(), "{bytes:?}");
        }
    }
}
