//! The settings that exist: names, types, ranges, and the right to change them. No other setting can be read or changed,
//! those of DataFusion included.

use super::nulls::Nulls;
use crate::access::Access;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::times::{Zone, missing_zone};

/// A setting of a session.
pub(crate) struct Setting {
    /// Its name in SQL; `freestone.` may stand before it.
    pub name: &'static str,
    /// Other names.
    aliases: &'static [&'static str],
    /// Its place in the configuration of DataFusion.
    pub key: &'static str,
    kind: Kind,
    /// Whether it holds for the whole database: such settings require the right to administer it.
    of_database: bool,
}

/// The values of a setting.
enum Kind {
    /// Whole numbers from the first to the second one.
    Whole(u64, u64),
    /// The number of threads: from 1 to a maximum that depends on those of the database.
    Threads,
    Boolean,
    OneOf(&'static [&'static str]),
    /// `on` and `off`, and PostgreSQL's other words, which wait at least as long as `on` does here.
    Commit,
    /// The presets of designs.
    Design,
    /// Where NULL is in an order.
    Nulls,
    Zone,
}

/// A batch of more rows does not fit any cache.
const BATCH_ROWS_MAX: u64 = 1 << 16;
/// Threads that a session may always ask for.
const THREADS_MAX: u64 = 64;
/// Milliseconds of the longest time limit, about 24 days.
const MILLISECONDS_MAX: u64 = i32::MAX as u64;
/// Ten years.
const RETENTION_SECONDS_MAX: u64 = 10 * 366 * 24 * 3600;

pub(super) const DEFAULT_ZONE: &str = "UTC";

const fn setting(name: &'static str, key: &'static str, kind: Kind) -> Setting {
    Setting { name, aliases: &[], key, kind, of_database: false }
}

/// All settings, by name.
pub(super) const SETTINGS: [Setting; 19] = [
    setting("batch_size", "datafusion.execution.batch_size", Kind::Whole(1, BATCH_ROWS_MAX)),
    setting("check_lengths", "freestone.check_lengths", Kind::Boolean),
    setting("copies", "freestone.copies", Kind::Boolean),
    setting("date_order", "freestone.date_order", Kind::OneOf(&["iso", "mdy", "dmy", "ymd"])),
    Setting { aliases: &["null_order"], ..setting("default_null_order", "freestone.default_null_order", Kind::Nulls) },
    setting("design", "freestone.design", Kind::Design),
    setting("distribution_claims", "freestone.distribution_claims", Kind::Boolean),
    setting("distribution_threshold", "freestone.distribution_threshold", Kind::Whole(0, MILLISECONDS_MAX)),
    setting("iterator", "freestone.iterator", Kind::OneOf(&["auto", "block", "index"])),
    setting("lock_timeout", "freestone.lock_timeout", Kind::Whole(0, MILLISECONDS_MAX)),
    setting("materialized_view_matching", "freestone.materialized_view_matching", Kind::Boolean),
    setting("preserve_insertion_order", "freestone.preserve_insertion_order", Kind::Boolean),
    setting("round_values", "freestone.round_values", Kind::Boolean),
    Setting {
        of_database: true,
        ..setting(super::RETENTION, "freestone.retention", Kind::Whole(0, RETENTION_SECONDS_MAX))
    },
    setting("snapshot_max_age", "freestone.snapshot_max_age", Kind::Whole(0, MILLISECONDS_MAX)),
    setting("synchronous_commit", "freestone.synchronous_commit", Kind::Commit),
    setting("threads", "datafusion.execution.target_partitions", Kind::Threads),
    Setting { aliases: &["timezone"], ..setting("time_zone", "datafusion.execution.time_zone", Kind::Zone) },
    setting("workload", "freestone.workload", Kind::OneOf(&["on", "literals", "off"])),
];

impl Setting {
    /// The name under which it is shown.
    pub fn shown(&self) -> String {
        format!("{}{}", super::PREFIX, self.name)
    }

    /// Whether this is one of its names.
    pub fn is_named(&self, name: &str) -> bool {
        let short = name.strip_prefix(super::PREFIX).unwrap_or(name);
        short == self.name || self.aliases.contains(&short)
    }

    /// Whether a session may change it.
    ///
    /// # Errors
    /// It holds for the whole database, which the session may not administer.
    pub fn check_right(&self, access: Access) -> Result<()> {
        if self.of_database { access.check_admin(&format!("change {}", self.name)) } else { Ok(()) }
    }

    /// A value as it is kept.
    ///
    /// # Errors
    /// The setting cannot have this value; the error says which ones it can have.
    pub fn value(&self, given: &str, options: &Options) -> Result<String> {
        let lower = given.trim().to_ascii_lowercase();
        let wrong = |values: String| Error::invalid(format!("{} = '{given}': {values}", self.name));
        let within = |least: u64, most: u64| match lower.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
            _ => Err(wrong(format!("the values are whole numbers from {least} to {most}"))),
        };
        match self.kind {
            Kind::Whole(least, most) => within(least, most),
            Kind::Threads => within(1, THREADS_MAX.max(options.threads as u64)),
            Kind::Boolean => match lower.as_str() {
                "true" | "on" | "yes" | "t" | "1" => Ok("true".to_owned()),
                "false" | "off" | "no" | "f" | "0" => Ok("false".to_owned()),
                _ => Err(wrong("the values are true and false".to_owned())),
            },
            Kind::OneOf(values) if values.contains(&lower.as_str()) => Ok(lower),
            Kind::OneOf(values) => Err(wrong(format!("the values are {}", values.join(", ")))),
            Kind::Commit => match lower.as_str() {
                "on" | "true" | "yes" | "1" | "local" | "remote_write" | "remote_apply" => Ok("on".to_owned()),
                "off" | "false" | "no" | "0" => Ok("off".to_owned()),
                _ => Err(wrong("the values are on and off".to_owned())),
            },
            Kind::Design => super::preset(given).map(|_| given.to_owned()),
            Kind::Nulls => match Nulls::named(&lower) {
                Some(nulls) => Ok(nulls.name().to_owned()),
                None => Err(wrong(format!("the values are {}", Nulls::ALL.map(Nulls::name).join(", ")))),
            },
            Kind::Zone => zone_name(given),
        }
    }
}

/// The name of a time zone from any of its forms. A number stands for hours.
fn zone_name(value: &str) -> Result<String> {
    if ["default", "local"].iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return Ok(DEFAULT_ZONE.to_owned());
    }
    let number = value.parse::<f64>().ok().filter(|_| !value.starts_with('+'));
    let zone = number.map_or_else(|| Zone::parse(value), Zone::of_hours);
    match zone {
        Some(zone) if zone.is_utc() => Ok(DEFAULT_ZONE.to_owned()),
        Some(zone) => Ok(zone.name()),
        None => Err(missing_zone(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_default_that_it_accepts_and_a_range() {
        let options = Options::default();
        let config = super::super::initial(&options);
        for setting in &SETTINGS {
            let value = super::super::value_of(config.options(), setting).expect(setting.name);
            assert_eq!(setting.value(&value, &options).expect(setting.name), value, "{}", setting.name);
            for wrong in ["", "nonsense!", "18446744073709551616", "1e300"] {
                assert!(setting.value(wrong, &options).is_err(), "{} = {wrong}", setting.name);
            }
        }
    }
}
