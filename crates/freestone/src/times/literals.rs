//! Texts of timestamps as literals.

use super::text;

/// Whether the text of a timestamp has a fraction that microseconds do not represent, in a year that nanoseconds do.
pub(crate) fn has_nanoseconds(text: &str) -> bool {
    let Some(written) = text::parse(text) else { return false };
    let is_in_range = |days| (1678..=2261).contains(&super::calendar::civil(days).year);
    written.days.is_some_and(is_in_range) && written.ns.is_some_and(|ns| ns % 1_000 != 0)
}
