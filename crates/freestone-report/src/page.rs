//! Findings as one self-contained HTML page in the reader's light or dark mode, without scripts, fonts or external
//! addresses.

use std::fmt::Write;

use crate::chart;
use crate::findings::{Check, Findings, Part, Table};
use crate::host::Host;

/// The colours are those of the console, too.
const STYLE: &str = concat!(include_str!("colours.css"), include_str!("page.css"));

/// A page of one or more runs. Several runs get a table of contents.
pub fn html(title: &str, lead: &str, runs: &[Findings]) -> String {
    with_links(title, lead, &[], runs)
}

/// The same with links to other pages of the same folder: their files and titles.
pub fn with_links(title: &str, lead: &str, pages: &[(String, String)], runs: &[Findings]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>{0}</title>\n<style>\n{STYLE}</style></head>\n<body>\n<header><p class=\"brand\">Freestone</p><h1>{0}</h1>\
         <p class=\"lead\">{1}</p></header>\n",
        escape(title),
        escape(lead)
    );
    if !pages.is_empty() {
        let link =
            |(file, title): &(String, String)| format!("<li><a href=\"{}\">{}</a></li>", escape(file), escape(title));
        let _ = writeln!(out, "<nav><ul>{}</ul></nav>", pages.iter().map(link).collect::<String>());
    }
    if runs.len() > 1 {
        contents(runs, &mut out);
    }
    claims(runs, &mut out);
    for run in runs {
        if runs.len() > 1 {
            let (name, title, question) = (escape(&run.name), escape(&run.title), escape(&run.question));
            let _ =
                write!(out, "<article id=\"{name}\"><h2 class=\"run\">{title}</h2><p class=\"lead\">{question}</p>");
        } else {
            out.push_str("<article>");
        }
        run.parts.iter().for_each(|part| part_html(part, &mut out));
        origin(run, &mut out);
        out.push_str("</article>\n");
    }
    out.push_str("</body></html>\n");
    out
}

fn contents(runs: &[Findings], out: &mut String) {
    out.push_str("<nav><ul>");
    for run in runs {
        let failed = run.checks().filter(|check| check.is_refuted()).count();
        let state = match (run.checks().filter(|check| !check.is_unmeasured).count(), failed) {
            (0, _) => String::new(),
            (all, 0) => format!(" <span class=\"yes\">{all} of {all} checks hold</span>"),
            (all, failed) => format!(" <span class=\"no\">{failed} of {all} checks do not hold</span>"),
        };
        let _ = write!(out, "<li><a href=\"#{0}\">{0}</a>: {1}{state}</li>", escape(&run.name), escape(&run.title));
    }
    out.push_str("</ul></nav>\n");
}

/// The papers' claims of all runs in one table, with the measurement for each.
fn claims(runs: &[Findings], out: &mut String) {
    let claims = runs.iter().flat_map(|run| run.checks().map(move |check| (run, check)));
    let claims: Vec<_> = claims.filter(|(_, check)| !check.place.is_empty()).collect();
    if claims.is_empty() {
        return;
    }
    let count = |of: fn(&Check) -> bool| claims.iter().filter(|(_, check)| of(check)).count();
    let (hold, all) = (count(|check| check.holds), count(|check| !check.is_unmeasured));
    let missing = match claims.len() - all {
        0 => String::new(),
        count => format!(" {count} could not be measured."),
    };
    let held = match all {
        0 => "No claim was measured.".to_owned(),
        _ => format!(
            "{hold} of {all} claims hold here, on this machine with this engine, at the sizes that the experiments below name."
        ),
    };
    let _ = write!(out, "<section id=\"claims\"><h2>What the papers claim</h2><p>{held}{missing}</p>");
    by_source(&claims, out);
    out.push_str(
        "<div class=\"table\"><table class=\"claims\"><thead><tr><th></th><th>Claim</th><th>Where</th><th>Measured here</th>\
         <th>Why not</th></tr></thead><tbody>",
    );
    let mut claims = claims;
    // Those of a state stay in the order of the runs.
    claims.sort_by_key(|(_, check)| state(check));
    for (run, check) in claims {
        let (class, word) = STATES[state(check)];
        let _ = write!(
            out,
            "<tr><td class=\"{class}\">{word}</td><td><a href=\"#{}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&run.name),
            escape(&check.statement),
            escape(&check.place),
            escape(&check.detail),
            escape(&check.why)
        );
    }
    out.push_str("</tbody></table></div></section>\n");
}

/// The states of a claim: the class of the page, and the word.
const STATES: [(&str, &str); 3] = [("yes", "holds"), ("no", "does not"), ("note", "not measured")];

fn state(check: &Check) -> usize {
    match check {
        check if check.holds => 0,
        check if check.is_unmeasured => 2,
        _ => 1,
    }
}

/// The paper of a source: up to its year.
fn paper(source: &str) -> &str {
    let is_year = |at: &usize| source[*at..].chars().take(4).filter(char::is_ascii_digit).count() == 4;
    let year = source.char_indices().map(|(at, _)| at).find(is_year);
    year.map_or(source, |at| &source[..at + 4])
}

/// The number of claims in each state, by paper.
fn by_source(claims: &[(&Findings, &Check)], out: &mut String) {
    let mut counts: Vec<(&str, [usize; 3])> = vec![];
    for (run, check) in claims {
        let source = paper(&run.source);
        let at = counts.iter().position(|(name, _)| *name == source).unwrap_or_else(|| {
            counts.push((source, [0; 3]));
            counts.len() - 1
        });
        counts[at].1[state(check)] += 1;
    }
    if counts.len() < 2 {
        return;
    }
    let mut table = Table::new("Claims by state", 1, &["source", STATES[0].1, STATES[1].1, STATES[2].1]);
    for (source, of_state) in counts {
        table.push(std::iter::once(source.to_owned()).chain(of_state.map(|count| count.to_string())));
    }
    table_html(&table, out);
}

fn part_html(part: &Part, out: &mut String) {
    match part {
        Part::Section(section) => {
            if !section.title.is_empty() {
                let _ = write!(out, "<h2>{}</h2>", escape(&section.title));
            }
            if !section.text.is_empty() {
                let _ = write!(out, "<p>{}</p>", escape(&section.text));
            }
        }
        Part::Tiles(tiles) => {
            out.push_str("<div class=\"tiles\">");
            for (value, what) in &tiles.tiles {
                let _ = write!(out, "<div><b>{}</b><span>{}</span></div>", escape(value), escape(what));
            }
            out.push_str("</div>");
        }
        Part::Table(table) => table_html(table, out),
        Part::Bars(bars) => out.push_str(&chart::bars(bars)),
        Part::Stacks(stacks) => out.push_str(&chart::stacks(stacks)),
        Part::Lines(lines) => out.push_str(&chart::lines(lines)),
        Part::Checks(checks) => {
            out.push_str("<ul class=\"checks\">");
            checks.checks.iter().for_each(|check| check_html(check, out));
            out.push_str("</ul>");
        }
        Part::Code(code) => {
            let _ = write!(out, "<p class=\"note\">{}</p><pre>{}</pre>", escape(&code.caption), escape(&code.text));
        }
    }
    out.push('\n');
}

fn check_html(check: &Check, out: &mut String) {
    let (class, mark) = match check {
        check if check.holds => ("yes", "\u{2713}"),
        check if check.is_unmeasured => ("note", "not measured:"),
        _ => ("no", "\u{2717}"),
    };
    let _ = write!(
        out,
        "<li><span class=\"{class}\">{mark}</span> {} <span class=\"note\">{}</span>",
        escape(&check.statement),
        escape(&check.detail)
    );
    if !check.why.is_empty() {
        let _ = write!(out, "<p class=\"note\">Why: {}</p>", escape(&check.why));
    }
    out.push_str("</li>");
}

fn table_html(table: &Table, out: &mut String) {
    out.push_str("<div class=\"table\"><table>");
    if !table.title.is_empty() {
        let _ = write!(out, "<caption>{}</caption>", escape(&table.title));
    }
    let class = |column: usize| if column < table.text_columns { "" } else { " class=\"n\"" };
    out.push_str("<thead><tr>");
    for (column, name) in table.header.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(column), escape(name));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let text = escape(&cell.text);
            let text = if cell.best { format!("<b>{text}</b>") } else { text };
            let _ = write!(out, "<td{}>{text}</td>", class(column));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

/// The origin of the figures, at the end of a run. What no command has measured has none.
fn origin(run: &Findings, out: &mut String) {
    if run.command.is_empty() {
        return;
    }
    let Host { hardware, versions, date } = &run.host;
    let _ = write!(
        out,
        "<footer><p>{} · {} · {} · {:.0} s in all</p><p>Source: {}</p><p>Again: <code>{}</code></p></footer>",
        escape(hardware),
        escape(versions),
        escape(date),
        run.seconds,
        escape(&run.source),
        escape(&run.command)
    );
}

/// `text` as HTML text or as a value between double quotes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str) -> Findings {
        Findings {
            name: name.into(),
            title: "A & B".into(),
            question: "Is 1 < 2?".into(),
            source: "none".into(),
            command: "freestone-lab run x".into(),
            host: Host::default(),
            seconds: 1.0,
            parts: vec![Part::checks(vec![Check::new("1 < 2", true, "by 1")])],
        }
    }

    #[test]
    fn claims_of_all_runs_are_one_table_with_reasons() {
        let claim = |holds| Check::new("rows win", holds, "by 2").claimed("6.2, Figure 2").or_because("a fast disk");
        let checks = vec![Check::new("of this project", true, "x"), claim(true), claim(false)];
        let runs = [Findings { parts: vec![Part::checks(checks)], ..run("a") }];
        let page = html("Title", "Lead", &runs);
        let table = page.split("id=\"claims\"").nth(1).and_then(|rest| rest.split("</section>").next());
        let table = table.expect("there is a table of claims");
        assert!(table.contains("1 of 2 claims hold") && !table.contains("of this project"), "{table}");
        assert_eq!((table.matches("6.2, Figure 2").count(), table.matches("a fast disk").count()), (2, 1));
        assert!(!html("Title", "Lead", &[run("a")]).contains("id=\"claims\""), "no claims, no table");
    }

    #[test]
    fn claims_of_several_papers_are_counted_and_sorted_by_state() {
        let claim = |statement: &str, holds| Check::new(statement, holds, "x").claimed("1");
        let missing = Check::unmeasured("c missing", "no tool").claimed("2");
        let of =
            |source: &str, checks| Findings { source: source.into(), parts: vec![Part::checks(checks)], ..run("a") };
        let runs = [
            of("A 2006, section 1", vec![missing, claim("a refuted", false)]),
            of("B 2008, Table 1", vec![claim("b holds", true)]),
            of("A 2006, section 2", vec![claim("a holds", true)]),
        ];
        let page = html("Title", "Lead", &runs);
        let table =
            page.split("Claims by state").nth(1).and_then(|rest| rest.split("</section>").next()).expect("counted");
        let cell = |n: usize| format!("<td class=\"n\">{n}</td>");
        assert!(table.contains(&format!("A 2006</td>{}{}{}", cell(1), cell(1), cell(1))), "{table}");
        assert!(table.contains(&format!("B 2008</td>{}{}{}", cell(1), cell(0), cell(0))), "{table}");
        let at = |statement: &str| table.find(statement).expect(statement);
        assert!(at("b holds") < at("a holds") && at("a holds") < at("a refuted") && at("a refuted") < at("c missing"));
        assert!(
            !html("Title", "Lead", &runs[..1]).contains("Claims by state"),
            "a page of one paper says it in its first line"
        );
        assert_eq!(paper("Götze, Baumann and Sattler 2018, V.B"), "Götze, Baumann and Sattler 2018");
        assert_eq!(
            (paper("Don't, VLDB 2017, 3.2"), paper("none"), paper("né 201")),
            ("Don't, VLDB 2017", "none", "né 201")
        );
    }

    #[test]
    fn what_was_not_measured_is_neither_held_nor_refuted() {
        let checks = vec![Check::new("a", true, "x").claimed("1"), Check::unmeasured("b", "no tool").claimed("2")];
        let runs = [Findings { parts: vec![Part::checks(checks)], ..run("a") }, run("b")];
        let page = html("Title", "Lead", &runs);
        assert!(page.contains("1 of 1 claims hold") && page.contains("1 could not be measured"), "{page}");
        assert!(page.contains("1 of 1 checks hold") && page.contains("not measured</td>"), "{page}");
    }

    #[test]
    fn a_page_stands_alone_and_escapes_what_it_shows() {
        let page = html("Title", "Lead", &[run("a"), run("b")]);
        assert!(page.contains("A &amp; B") && page.contains("1 &lt; 2") && page.contains("href=\"#b\""));
        let pages = [("a&b.html".to_owned(), "1 < 2".to_owned())];
        assert!(with_links("Title", "Lead", &pages, &[run("a")]).contains("<a href=\"a&amp;b.html\">1 &lt; 2</a>"));
        for outside in ["http:", "https:", "<script", "<link", "@import", "src="] {
            assert!(!page.contains(outside), "the page refers to something outside: {outside}");
        }
    }
}
