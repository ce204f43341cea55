//! The options of EXPLAIN in parentheses.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, AnalyzeFormat, AnalyzeFormatKind, Statement, VisitMut, VisitorMut};

use super::visitor;

/// Removes the options in parentheses that also have keywords: `EXPLAIN (ANALYZE, VERBOSE off, FORMAT json)`. Other
/// options remain, and are refused.
pub(crate) fn rewrite(sql: &mut impl VisitMut) {
    struct Options;
    impl VisitorMut for Options {
        type Break = ();
        fn pre_visit_statement(&mut self, sql: &mut Statement) -> ControlFlow<()> {
            if let Statement::Explain { analyze, verbose, options, format, .. } = sql
                && let Some(written) = options
            {
                written.retain(|option| {
                    match (option.name.value.to_ascii_lowercase().as_str(), argument(option.arg.as_ref()).as_str()) {
                        ("analyze", "" | "true" | "on" | "1") => *analyze = true,
                        ("verbose", "" | "true" | "on" | "1") => *verbose = true,
                        ("analyze" | "verbose", "false" | "off" | "0") => {}
                        ("format", "text" | "tree") => *format = Some(AnalyzeFormatKind::Keyword(AnalyzeFormat::TREE)),
                        ("format", "json") => *format = Some(AnalyzeFormatKind::Keyword(AnalyzeFormat::JSON)),
                        ("format", "traditional") => {
                            *format = Some(AnalyzeFormatKind::Keyword(AnalyzeFormat::TRADITIONAL));
                        }
                        // What PostgreSQL measures or leaves out besides: here it is always, or never, shown.
                        ("costs" | "timing" | "summary" | "buffers" | "settings" | "wal", _) => {}
                        _ => return true,
                    }
                    false
                });
                if written.is_empty() {
                    *options = None;
                }
            }
            ControlFlow::Continue(())
        }
    }
    let _ = visitor::visit_mut(sql, &mut Options);
}

fn argument(argument: Option<&ast::Expr>) -> String {
    argument.map_or_else(String::new, |argument| argument.to_string().trim_matches('\'').to_ascii_lowercase())
}
