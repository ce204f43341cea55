//! The accuracy of predictions.

use std::collections::BTreeMap;

use freestone_advisor::Cost;
use freestone_advisor::model::Parts;

pub struct Case {
    pub table: u64,
    pub query: usize,
    pub design: String,
    pub threads: usize,
    pub text: String,
    pub measured_ms: f64,
    /// Nanoseconds of the reference scan before and after it.
    pub reference_ns: f64,
    /// The number of result rows.
    pub rows: u64,
    pub cost: Cost,
    pub parts: Parts,
    pub bytes_predicted: f64,
    pub bytes_stored: f64,
}

impl Case {
    fn error(&self) -> f64 {
        (self.cost.ms - self.measured_ms) / self.measured_ms
    }
}

pub fn print_csv(cases: &[Case]) {
    println!(
        "table,query,threads,measured_ms,predicted_ms,low_ms,high_ms,io_ms,cpu_ms,bytes_predicted,bytes_stored,begin_ms,\
         frame_ms,filter_ms,select_ms,decode_ms,page_ms,memory_ms,output_ms,admit_ms,reading_ms,first_ms,wait_ms,ahead_ms,\
         bytes_read,pages,rows_left,units,rows,reference_ns,design,text"
    );
    for c in cases {
        let p = &c.parts;
        let times = [
            p.begin_ns + p.begin_read_ns,
            p.frame_ns,
            p.filter_ns,
            p.select_ns,
            p.decode_ns,
            p.page_ns,
            p.memory_ns,
            p.output_ns,
            p.admit_ns,
            p.reading_ns,
            p.first_ns,
            p.wait_ns,
            p.ahead_ns,
        ];
        let times = times.map(|ns| format!("{:.4}", ns / 1e6)).join(",");
        println!(
            "{},{},{},{:.4},{:.4},{:.4},{:.4},{:.4},{:.4},{:.0},{:.0},{times},{:.0},{:.0},{:.0},{:.0},{},{:.0},\"{}\",\"{}\"",
            c.table,
            c.query,
            c.threads,
            c.measured_ms,
            c.cost.ms,
            c.cost.low_ms,
            c.cost.high_ms,
            c.cost.io_ms,
            c.cost.cpu_ms,
            c.bytes_predicted,
            c.bytes_stored,
            p.bytes_read,
            p.pages_visited,
            p.rows_left,
            p.morsels,
            c.rows,
            c.reference_ns,
            c.design,
            c.text.replace('"', "'")
        );
    }
}

/// Predicted and measured times as an SVG picture, both in milliseconds on logarithmic axes. The band is 20 % on either
/// side.
pub fn plot(cases: &[Case], title: &str) -> String {
    const SIZE: f64 = 640.0;
    const MARGIN: f64 = 60.0;
    let times = || cases.iter().flat_map(|c| [c.measured_ms, c.cost.ms]).filter(|ms| *ms > 0.0);
    let low = times().fold(f64::INFINITY, f64::min).log10().floor();
    let high = times().fold(0.0, f64::max).log10().ceil().max(low + 1.0);
    let at = |log: f64| MARGIN + (log - low) / (high - low) * (SIZE - 2.0 * MARGIN);
    let (x, y) = (|ms: f64| at(ms.log10()), |ms: f64| SIZE - at(ms.log10()));
    let (least, most) = (10f64.powf(low), 10f64.powf(high));
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{SIZE}' height='{SIZE}' font-family='sans-serif' font-size='12'>\n\
         <rect width='100%' height='100%' fill='white'/>\n<text x='{MARGIN}' y='24' font-size='14'>{title}</text>\n"
    );
    let band = [
        (least, least * 1.2),
        (most / 1.2, most),
        (most, most),
        (most, most / 1.2),
        (least * 1.2, least),
        (least, least),
    ];
    let band: Vec<String> = band.iter().map(|(m, p)| format!("{:.1},{:.1}", x(*m), y(*p))).collect();
    svg += &format!("<polygon points='{}' fill='#dde8f5'/>\n", band.join(" "));
    for decade in low as i32..=high as i32 {
        let (ms, line) = (10f64.powi(decade), "stroke='#ddd'");
        let (across, up, end) = (x(ms), y(ms), SIZE - MARGIN);
        svg += &format!("<path d='M{across:.1} {MARGIN}V{end}M{MARGIN} {up:.1}H{end}' {line}/>\n");
        svg += &format!("<text x='{across:.1}' y='{:.1}' text-anchor='middle'>{ms}</text>\n", end + 18.0);
        svg += &format!("<text x='{:.1}' y='{:.1}' text-anchor='end'>{ms}</text>\n", MARGIN - 6.0, up + 4.0);
    }
    for case in cases.iter().filter(|c| c.cost.ms > 0.0 && c.measured_ms > 0.0) {
        let (cx, cy) = (x(case.measured_ms), y(case.cost.ms));
        svg += &format!("<circle cx='{cx:.1}' cy='{cy:.1}' r='2.5' fill='#1f5fa8' fill-opacity='0.5'/>\n");
    }
    let middle = SIZE / 2.0;
    svg += &format!("<text x='{middle}' y='{:.1}' text-anchor='middle'>measured, ms</text>\n", SIZE - 16.0);
    svg += &format!(
        "<text transform='translate(16 {middle}) rotate(-90)' text-anchor='middle'>predicted, ms</text>\n</svg>\n"
    );
    svg
}

pub fn print(cases: &[Case]) {
    quantiles("|error| of time", cases.iter().map(|c| c.error().abs()).collect());
    quantiles("error of time, signed", cases.iter().map(Case::error).collect());
    quantiles("|error| of size", cases.iter().map(|c| (c.bytes_predicted / c.bytes_stored - 1.0).abs()).collect());
    let within = cases.iter().filter(|c| (c.cost.low_ms..=c.cost.high_ms).contains(&c.measured_ms)).count();
    println!("within the interval: {:.1} % of {} cases", within as f64 * 100.0 / cases.len() as f64, cases.len());
    println!("Kendall's tau of all cases: {:.3}", tau(&cases.iter().collect::<Vec<_>>()).unwrap_or(0.0));
    let mut groups: BTreeMap<(u64, usize), Vec<&Case>> = BTreeMap::new();
    cases.iter().for_each(|c| groups.entry((c.table, c.query)).or_default().push(c));
    let taus: Vec<f64> = groups.values().filter_map(|g| tau(g)).collect();
    println!("within a table and query: mean {:.3}", taus.iter().sum::<f64>() / taus.len() as f64);
    let mut regrets: Vec<f64> = groups.values().map(|g| regret(g)).collect();
    regrets.sort_by(f64::total_cmp);
    let at = |share: f64| regrets[((regrets.len() - 1) as f64 * share) as usize];
    println!("regret of the design predicted best: median {:.3}, 90 % {:.3}, 95 % {:.3}", at(0.5), at(0.9), at(0.95));
    let mut paces: Vec<f64> = cases.iter().map(|c| c.reference_ns / 1e6).collect();
    paces.sort_by(f64::total_cmp);
    let at = |share: f64| paces[((paces.len() - 1) as f64 * share) as usize];
    println!("the reference scan took {:.2} ms, nine times in ten {:.2} to {:.2}", at(0.5), at(0.05), at(0.95));
    by_page(cases);
    worst(cases);
}

fn quantiles(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share) as usize] * 100.0;
    println!(
        "{name}: 5 % {:.1}, 25 % {:.1}, median {:.1}, 75 % {:.1}, 90 % {:.1}, 95 % {:.1} (per cent)",
        at(0.05),
        at(0.25),
        at(0.5),
        at(0.75),
        at(0.9),
        at(0.95)
    );
}

/// Kendall's tau-b; `None` for fewer than two different cases.
fn tau(cases: &[&Case]) -> Option<f64> {
    let (mut agree, mut differ) = (0.0, 0.0);
    for (at, a) in cases.iter().enumerate() {
        for b in &cases[at + 1..] {
            let product = (a.measured_ms - b.measured_ms) * (a.cost.ms - b.cost.ms);
            agree += f64::from(u8::from(product > 0.0));
            differ += f64::from(u8::from(product < 0.0));
        }
    }
    (agree + differ > 0.0).then(|| (agree - differ) / (agree + differ))
}

fn regret(cases: &[&Case]) -> f64 {
    let best = cases.iter().map(|c| c.measured_ms).fold(f64::INFINITY, f64::min);
    let chosen = cases.iter().min_by(|a, b| a.cost.ms.total_cmp(&b.cost.ms));
    chosen.map_or(0.0, |c| c.measured_ms / best - 1.0)
}

/// The median error of each kind of design.
fn by_page(cases: &[Case]) {
    let mut kinds: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
    for case in cases {
        let preset = case.design.split("preset = '").nth(1).and_then(|d| d.split('\'').next()).unwrap_or("");
        let page = case.design.split("page_format = '").nth(1).and_then(|d| d.split('\'').next()).unwrap_or("");
        let sorted = if case.design.contains("sort = ") { " sorted" } else { "" };
        let indexed = if case.design.contains("index = ") { " indexed" } else { "" };
        kinds.entry(format!("{preset} {page}{sorted}{indexed}")).or_default().push(case);
    }
    for (kind, cases) in kinds {
        let mut errors: Vec<f64> = cases.iter().map(|c| c.error() * 100.0).collect();
        errors.sort_by(f64::total_cmp);
        let mut sizes: Vec<f64> = cases.iter().map(|c| (c.bytes_predicted / c.bytes_stored - 1.0) * 100.0).collect();
        sizes.sort_by(f64::total_cmp);
        let at = |share: f64| errors[((errors.len() - 1) as f64 * share) as usize];
        let (n, size) = (cases.len(), sizes[sizes.len() / 2]);
        println!(
            "{kind:24} {n:4}: {:6.0} {:6.0} {:6.0} {:6.0} {:6.0}   size {size:6.1}",
            at(0.05),
            at(0.25),
            at(0.5),
            at(0.75),
            at(0.95)
        );
    }
}

fn worst(cases: &[Case]) {
    let mut order: Vec<&Case> = cases.iter().collect();
    let badness = |c: &Case| (c.cost.ms / c.measured_ms).ln().abs();
    order.sort_by(|a, b| badness(b).total_cmp(&badness(a)));
    for case in order.iter().take(25) {
        let p = &case.parts;
        println!(
            "\n{:.2} ms predicted, {:.2} measured, {} threads, table {}, {}\n    {}",
            case.cost.ms, case.measured_ms, case.threads, case.table, case.design, case.text
        );
        println!(
            "    frame {:.2} filter {:.2} select {:.2} decode {:.2} page {:.2} memory {:.2} output {:.2} admit {:.2} | wait {:.2} \
             busy {:.2} | {:.1} MB read, {:.0} pages, {:.0} rows, {:.0} units; {:.1} MB predicted, {:.1} stored",
            p.frame_ns / 1e6,
            p.filter_ns / 1e6,
            p.select_ns / 1e6,
            p.decode_ns / 1e6,
            p.page_ns / 1e6,
            p.memory_ns / 1e6,
            p.output_ns / 1e6,
            p.admit_ns / 1e6,
            p.wait_ns / 1e6,
            p.ahead_ns / 1e6,
            p.bytes_read / 1e6,
            p.pages_visited,
            p.rows_left,
            p.morsels,
            case.bytes_predicted / 1e6,
            case.bytes_stored / 1e6
        );
    }
}
