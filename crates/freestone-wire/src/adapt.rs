//! The choice of a form for each column, from the costs of every form on a sample and the rate of the link.
//!
//! Three stages work at the same time: encoding on the server's threads, the link, and decoding on the client's. The
//! slowest stage determines the throughput (Raasveldt and Mühleisen 2017, section 5.1, leave this open), so the choice
//! minimizes
//!
//! `max(encode ns / threads, bytes / rate, decode ns / threads)`
//!
//! over all columns together: a column that is expensive to compress is only compressed while the link is the slowest
//! stage. If both ends are one machine, the stages share its processors, and their sum counts instead. This module
//! reads neither a clock nor a socket.

/// The costs of one form of one column for the rows of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// The encoded bytes.
    pub bytes: f64,
    /// Nanoseconds for encoding.
    pub encode_ns: f64,
    /// Nanoseconds for decoding.
    pub decode_ns: f64,
}

impl Cost {
    fn plus(self, other: Cost, sign: f64) -> Cost {
        Cost {
            bytes: self.bytes + sign * other.bytes,
            encode_ns: self.encode_ns + sign * other.encode_ns,
            decode_ns: self.decode_ns + sign * other.decode_ns,
        }
    }
}

/// A possible form of a column. Forms of different columns with the same `class` are one fixed choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The class of the form.
    pub class: u8,
    /// The cost of the sample in this form.
    pub cost: Cost,
}

/// The properties of the link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Bytes per nanosecond.
    pub rate: f64,
    /// The number of encoding threads, and of decoding threads.
    pub threads: f64,
    /// Whether both ends share their processors.
    pub is_local: bool,
}

/// The predicted nanoseconds of a chunk; see the module.
pub fn predict(cost: Cost, link: Link) -> f64 {
    let send = cost.bytes / link.rate;
    let (encode, decode) = (cost.encode_ns / link.threads, cost.decode_ns / link.threads);
    if link.is_local { encode + send + decode } else { encode.max(send).max(decode) }
}

/// The cost of the fixed choice `class`. A column without such a form has its first form.
pub fn fixed(columns: &[Vec<Candidate>], class: u8) -> (Vec<usize>, Cost) {
    let picked: Vec<usize> =
        columns.iter().map(|forms| forms.iter().position(|form| form.class == class).unwrap_or(0)).collect();
    let cost = total(columns, &picked);
    (picked, cost)
}

fn total(columns: &[Vec<Candidate>], picked: &[usize]) -> Cost {
    let costs = columns.iter().zip(picked).filter_map(|(forms, at)| forms.get(*at));
    costs.fold(Cost::default(), |sum, form| sum.plus(form.cost, 1.0))
}

/// The form of every column: the best fixed choice, improved column by column while that helps. So it is never worse
/// than any fixed choice. Columns without candidates get 0.
pub fn choose(columns: &[Vec<Candidate>], link: Link) -> Vec<usize> {
    let mut classes: Vec<u8> = columns.iter().flatten().map(|form| form.class).collect();
    classes.sort_unstable();
    classes.dedup();
    // A class that no column has represents the first form of each column.
    classes.extend((0..=u8::MAX).find(|class| !classes.contains(class)));
    let fixed = classes.into_iter().map(|class| fixed(columns, class));
    let best = fixed.min_by(|a, b| score(a.1, link).total_cmp(&score(b.1, link)));
    let Some((mut picked, mut cost)) = best else { return vec![0; columns.len()] };
    // Each step reduces the score, so this ends; in practice after two or three rounds.
    for _ in 0..8 {
        let before = score(cost, link);
        for (at, forms) in columns.iter().enumerate() {
            let Some(now) = forms.get(picked[at]) else { continue };
            let rest = cost.plus(now.cost, -1.0);
            let best = (0..forms.len()).min_by(|a, b| {
                let with = |form: usize| score(rest.plus(forms[form].cost, 1.0), link);
                with(*a).total_cmp(&with(*b))
            });
            if let Some(best) = best.filter(|best| score(rest.plus(forms[*best].cost, 1.0), link) < score(cost, link)) {
                cost = rest.plus(forms[best].cost, 1.0);
                picked[at] = best;
            }
        }
        if score(cost, link) >= before * 0.999 {
            break;
        }
    }
    picked
}

/// The prediction, plus a small part of the sum of the stages, so that of two choices with the same slowest stage the
/// one with less work wins.
fn score(cost: Cost, link: Link) -> f64 {
    let sum = cost.encode_ns / link.threads + cost.bytes / link.rate + cost.decode_ns / link.threads;
    predict(cost, link) + 0.01 * sum
}

/// A smoothed rate, from the bytes sent and the time that this took.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    bytes_per_ns: f64,
    is_measured: bool,
}

/// The times of smaller sends depend more on the socket's buffer than on the link.
const MEASURED_BYTES_MIN: usize = 32 << 10;
/// The weight of the latest measurement.
const LATEST: f64 = 0.3;

impl Rate {
    /// An assumed initial rate.
    pub fn assumed(bytes_per_ns: f64) -> Self {
        Self { bytes_per_ns, is_measured: false }
    }

    /// Adds a measurement.
    pub fn sent(&mut self, bytes: usize, ns: u64) {
        if bytes < MEASURED_BYTES_MIN {
            return;
        }
        let latest = bytes as f64 / ns.max(1) as f64;
        let weight = if self.is_measured { LATEST } else { 0.5 };
        // The mean of times, not of rates: one send into an empty buffer must not hide a slow link.
        self.bytes_per_ns = 1.0 / ((1.0 - weight) / self.bytes_per_ns + weight / latest);
        self.is_measured = true;
    }

    /// Bytes per nanosecond.
    pub fn get(&self) -> f64 {
        self.bytes_per_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn form(class: u8, bytes: f64, encode_ns: f64, decode_ns: f64) -> Candidate {
        Candidate { class, cost: Cost { bytes, encode_ns, decode_ns } }
    }

    /// Raw, LZ4 and Zstandard of a column that compresses well, and of one that does not.
    fn columns() -> Vec<Vec<Candidate>> {
        vec![
            vec![form(0, 1000.0, 100.0, 10.0), form(1, 400.0, 1500.0, 500.0), form(2, 200.0, 4000.0, 1500.0)],
            vec![form(0, 1000.0, 100.0, 10.0), form(1, 950.0, 2500.0, 500.0), form(2, 900.0, 9000.0, 2000.0)],
        ]
    }

    fn check(rate: f64, is_local: bool, expected: [usize; 2]) {
        let link = Link { rate, threads: 1.0, is_local };
        assert_eq!(choose(&columns(), link), expected, "at {rate}");
    }

    #[test]
    fn fast_links_get_raw_columns_and_slow_ones_small_columns() {
        check(3.0, true, [0, 0]);
        check(3.0, false, [0, 0]);
        check(0.8, false, [1, 0]);
        check(0.2, false, [2, 0]);
        check(0.01, false, [2, 2]);
    }

    #[test]
    fn a_smaller_stored_form_wins_on_one_machine_if_it_is_cheap_to_read() {
        let columns = [vec![form(0, 8000.0, 4000.0, 100.0), form(1, 1000.0, 100.0, 1500.0)]];
        assert_eq!(choose(&columns, Link { rate: 3.0, threads: 1.0, is_local: true }), [1]);
        assert_eq!(choose(&[], Link { rate: 3.0, threads: 1.0, is_local: true }), [0; 0]);
    }

    #[test]
    fn rates_follow_what_is_sent() {
        let mut rate = Rate::assumed(1.0);
        rate.sent(100, 1_000_000);
        assert_eq!(rate.get(), 1.0);
        for _ in 0..20 {
            rate.sent(1 << 20, 10 << 20);
        }
        assert!((rate.get() - 0.1).abs() < 0.01, "{rate:?}");
        rate.sent(1 << 20, 1 << 10);
        assert!(rate.get() < 0.2, "{rate:?}");
    }

    #[test]
    fn the_first_forms_are_a_fixed_choice_too() {
        let columns = [
            vec![form(1, 2.9e5, 1.5e5, 0.0), form(0, 1.2e5, 9.5e5, 9.5e5)],
            vec![form(0, 4.2e5, 6.1e5, 0.0), form(2, 5.3e5, 0.0, 2.9e5)],
            vec![form(0, 1.0, 8.4e5, 6.6e5), form(2, 7.4e5, 2.7e5, 6.0e5)],
            vec![form(0, 1.6e5, 4.7e5, 8.4e5)],
            vec![form(0, 9.9e4, 0.0, 0.0), form(1, 1.0, 8.9e5, 0.0)],
        ];
        let link = Link { rate: 4.07, threads: 6.32, is_local: false };
        let (_, first) = fixed(&columns, 3);
        assert!(predict(total(&columns, &choose(&columns, link)), link) <= predict(first, link));
    }

    proptest! {
        #[test]
        fn never_dearer_than_a_fixed_choice(
            columns in prop::collection::vec(
                prop::collection::vec((0u8..5, 1.0..1e6f64, 0.0..1e6f64, 0.0..1e6f64), 1..6), 1..12),
            rate in 1e-3..10.0f64,
            threads in 1.0..8.0f64,
            is_local: bool,
        ) {
            let columns: Vec<Vec<Candidate>> =
                columns.into_iter().map(|forms| forms.into_iter().map(|(c, b, e, d)| form(c, b, e, d)).collect()).collect();
            let link = Link { rate, threads, is_local };
            let chosen = predict(total(&columns, &choose(&columns, link)), link);
            for class in 0..5 {
                let fixed = predict(fixed(&columns, class).1, link);
                prop_assert!(chosen <= 1.05 * fixed, "{chosen} over {fixed} of class {class}");
            }
        }
    }
}
