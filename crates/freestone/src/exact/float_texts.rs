//! Floats as PostgreSQL writes them, for sessions of its clients: `1e+20`, `Infinity`, `-0`, without a point where there is no
//! fraction.

use std::fmt::{Display, LowerExp, Write};

use datafusion::common::config::ConfigExtension;
use datafusion::common::extensions_options;

extensions_options! {
    /// How casts write floats in a session.
    pub struct FloatTexts {
        /// Whether as PostgreSQL does, for its clients
        pub are_postgres: bool, default = false
    }
}

impl ConfigExtension for FloatTexts {
    const PREFIX: &'static str = "freestone_texts";
}

/// From this power of ten on, and below the fourth negative one, a value has an exponent.
const DOUBLE_EXPONENT: i32 = 15;
const FLOAT_EXPONENT: i32 = 6;

/// The shortest text that is read as the same value.
pub fn push_float(text: &mut String, value: f64) {
    push(text, value, &value, DOUBLE_EXPONENT);
}

/// The same for a value of 32 bits.
pub fn push_float32(text: &mut String, value: f32) {
    push(text, value.into(), &value, FLOAT_EXPONENT);
}

fn push(text: &mut String, value: f64, shortest: &(impl Display + LowerExp), exponent_min: i32) {
    if value.is_nan() {
        return text.push_str("NaN");
    }
    if value.is_infinite() {
        return text.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let scientific = format!("{shortest:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let _ = if value != 0.0 && !(-4..exponent_min).contains(&exponent) {
        write!(text, "{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    } else {
        write!(text, "{shortest}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_read_as_postgresqls() {
        for (value, expected) in [
            (1e20, "1e+20"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (-0.0, "-0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            let mut text = String::new();
            push_float(&mut text, value);
            assert_eq!(text, expected);
        }
        for (value, expected) in [(1.5, "1.5"), (1e6, "1e+06"), (f32::MAX, "3.4028235e+38"), (123_456.0, "123456")] {
            let mut text = String::new();
            push_float32(&mut text, value);
            assert_eq!(text, expected);
        }
    }
}
