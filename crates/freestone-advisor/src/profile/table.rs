//! The profile as rows of a table, for people and for SQL.

use super::{CacheLevel, EngineCosts, Hardware, Measured, Profile, Source, Translation};

/// One figure of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What was measured, in one word.
    pub topic: &'static str,
    /// The name of the figure.
    pub name: String,
    /// The value with its interval. `None`: it was not found, or not measured, as the name then says.
    pub measured: Option<Measured>,
    /// The unit of the figures.
    pub unit: &'static str,
    /// The system's value of the same figure.
    pub reported: Option<String>,
}

impl Profile {
    /// Every figure, in reading order.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Rows(vec![]);
        let source = if self.source == Source::Measured { "measured" } else { "assumed" };
        rows.said("host", format!("processor ({source})"), self.host.cores as f64, "cores", &self.host.cpu);
        rows.said("host", "memory".into(), self.host.memory_bytes as f64, "bytes", &self.host.kernel);
        rows.put("host", "memory page", Measured::exact(self.host.page_bytes as f64), "bytes");
        let hypervisor = self.host.hypervisor.clone().unwrap_or_else(|| "none".into());
        rows.said("host", "hypervisor".into(), f64::from(u8::from(self.host.hypervisor.is_some())), "", &hypervisor);
        rows.hardware(&self.hardware);
        rows.engine(&self.engine);
        rows.0
    }
}

struct Rows(Vec<Row>);

impl Rows {
    fn put(&mut self, topic: &'static str, name: impl Into<String>, m: Measured, unit: &'static str) {
        self.0.push(Row { topic, name: name.into(), measured: Some(m), unit, reported: None });
    }

    fn said(&mut self, topic: &'static str, name: String, value: f64, unit: &'static str, reported: &str) {
        let measured = Some(Measured::exact(value));
        self.0.push(Row { topic, name, measured, unit, reported: Some(reported.into()) });
    }

    /// A figure of times, which may not show it: the reason then follows the name.
    fn found(&mut self, topic: &'static str, name: String, measured: Option<Measured>, why: &str, unit: &'static str) {
        let name = if measured.is_some() { name } else { format!("{name} ({why})") };
        self.0.push(Row { topic, name, measured, unit, reported: None });
    }

    fn reported(&mut self, reported: Option<u64>) {
        if let (Some(row), Some(reported)) = (self.0.last_mut(), reported) {
            row.reported = Some(reported.to_string());
        }
    }

    fn hardware(&mut self, hardware: &Hardware) {
        self.put("host", "spread of a fixed scan", hardware.spread, "");
        hardware.caches.iter().for_each(|cache| self.cache(cache));
        hardware.translation.iter().for_each(|translation| self.translation(translation));
        self.curve("memory", "load, chains at once", &hardware.parallelism, "ns");
        self.curve("memory", "read bandwidth, threads", &hardware.bandwidth, "GB/s");
        self.curve("memory", "read in order, region bytes", &hardware.stream, "ns/byte");
        if let Some(disk) = &hardware.disk {
            for (name, points) in [("sequential", &disk.sequential), ("random", &disk.random)] {
                for p in points {
                    self.put("disk", format!("{name} {} KiB, depth {}", p.unit >> 10, p.depth), p.ns, "ns/read");
                }
            }
            self.put("disk", "durable write", disk.write, "ns/byte");
        }
        self.put("network", "loopback", hardware.loopback, "GB/s");
    }

    fn cache(&mut self, cache: &CacheLevel) {
        let level = cache.level;
        self.found("cache", format!("L{level} size"), cache.bytes, &cache.missing, "bytes");
        self.reported(cache.reported_bytes);
        let why = if cache.missing.is_empty() { "repetitions differ" } else { "not measured" };
        self.found("cache", format!("L{level} line"), cache.line_bytes, why, "bytes");
        self.reported(cache.reported_line);
        self.found("cache", format!("L{level} miss latency"), cache.miss_ns, why, "ns");
        self.found("cache", format!("L{level} replace time"), cache.replace_ns, why, "ns");
    }

    fn translation(&mut self, translation: &Translation) {
        let page = match translation.page_bytes {
            bytes if bytes >= 1 << 20 => format!("{} MiB pages", bytes >> 20),
            bytes => format!("{} KiB pages", bytes >> 10),
        };
        for (level, number) in translation.levels.iter().zip(1..) {
            self.put("tlb", format!("{page}: reach of level {number}"), level.reach_bytes, "bytes");
            self.put("tlb", format!("{page}: miss of level {number}"), level.miss_ns, "ns");
        }
        let why = match translation.granted {
            true => "not found: no jump of the latency",
            false => "not measured: the system did not give pages of this size",
        };
        if translation.levels.is_empty() {
            self.found("tlb", format!("{page}: reach"), None, why, "bytes");
        }
    }

    fn engine(&mut self, engine: &EngineCosts) {
        for (name, measured, unit) in [
            ("scan, a thread", engine.scan, "ns"),
            ("morsel", engine.morsel, "ns"),
            ("granule", engine.granule, "ns"),
            ("zones of a granule, a predicate", engine.zone_test, "ns"),
            ("zones of a granule ruled out, a predicate", engine.rule_out, "ns"),
            ("batch", engine.batch, "ns"),
            ("batch, a column", engine.batch_column, "ns"),
            ("reference scan", engine.reference, "ns"),
            ("page read, a byte", engine.admit_byte, "ns"),
            ("page read, a page", engine.admit_page, "ns"),
            ("slotted page read, a row", engine.admit_slotted_row, "ns"),
            ("dense prefix read, a row", engine.admit_prefix_row, "ns"),
            ("filter behind a prefix, a row", engine.prefix_filter, "ns"),
            ("decode behind a prefix, a row", engine.prefix_decode, "ns"),
            ("tuple output, a value that may be NULL", engine.tuple_null, "ns"),
            ("tuple output, a text byte", engine.tuple_byte, "ns"),
            ("shipped, a page", engine.ship_page, "ns"),
            ("shipped, a byte", engine.ship_byte, "ns"),
            ("encode, a value", engine.encode_value, "ns"),
            ("encode, a text byte", engine.encode_byte, "ns"),
            ("sort, a value", engine.sort_value, "ns"),
        ] {
            self.put("engine", name, measured, unit);
        }
        self.curve("engine", "slowdown by concurrent scans, threads", &engine.crowd, "");
        self.curve("engine", "list of rows, share", &engine.select, "ns/row");
        self.curve("engine", "values beyond the caches, bytes scanned", &engine.stream, "ns/byte");
        self.curve("engine", "tuples beyond the caches, bytes scanned", &engine.line, "ns/line");
        self.curve("engine", "long tuples beyond the caches, bytes scanned", &engine.line_apart, "ns/line");
        self.curve("engine", "slotted tuples beyond the caches, bytes scanned", &engine.line_slotted, "ns/line");
        self.curve("engine", "decoded values beyond the caches, bytes of a batch", &engine.spill, "ns/byte");
        self.curve("engine", "tuple output, bytes of a batch", &engine.tuple_value, "ns/value");
        for page in &engine.pages {
            let form = format!("{:?}", page.form).to_lowercase();
            self.curve("page", &format!("{form} decode, pages a granule"), &page.decode, "ns/page");
            self.put("page", format!("{form} decode, a further column"), page.column, "ns/page");
            self.put("page", format!("{form}, sparse"), page.sparse, "ns/page");
            self.curve("page", &format!("{form} filter, pages a granule"), &page.filter, "ns/page");
        }
        for k in &engine.kernels {
            let (form, family) = (format!("{:?}", k.form).to_lowercase(), format!("{:?}", k.family).to_lowercase());
            let operation = format!("{:?}", k.operation).to_lowercase();
            self.curve("kernel", &format!("{form} {family}({}) {operation}, share", k.parameter), &k.ns, "ns/value");
        }
    }

    fn curve(&mut self, topic: &'static str, name: &str, curve: &super::Curve, unit: &'static str) {
        for (x, measured) in &curve.points {
            self.put(topic, format!("{name} {}", three_digits(*x)), *measured, unit);
        }
    }
}

/// A positive number, rounded to three digits if it is below 100, otherwise to an integer.
fn three_digits(x: f64) -> String {
    let places = (2.0 - x.log10().floor()).max(0.0) as usize;
    let text = format!("{x:.places$}");
    if places > 0 { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_have_three_digits() {
        let check = |x: f64, expected: &str| assert_eq!(super::three_digits(x), expected, "{x}");
        check(0.010025154714059691, "0.01");
        check(0.33333, "0.333");
        check(1.0, "1");
        check(139.75, "140");
        check(8028160.0, "8028160");
    }
}
