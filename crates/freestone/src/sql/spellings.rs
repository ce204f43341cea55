//! Clauses of DuckDB that the parser does not support, written as clauses that it supports and that have no other use
//! here. [`super::extensions`] then rewrites the parsed clauses.
//!
//! | written | parsed as |
//! |---|---|
//! | `ASOF [LEFT] JOIN` | `GLOBAL [LEFT] JOIN` |
//! | `POSITIONAL JOIN` | `STRAIGHT_JOIN` |
//! | `USING SAMPLE 10%` | `QUALIFY "freestone$sample"('percent', 10)`, or behind AND in a QUALIFY |
//! | `TABLESAMPLE reservoir(5 ROWS)` | `TABLESAMPLE BERNOULLI (5 ROWS)` |
//! | `LIMIT 10 %` | `LIMIT "freestone$percent"(10)` |
//! | `RENAME CONSTRAINT a TO b` | `RENAME COLUMN "freestone$constraint:a" TO b` |
//! | `INSERT INTO t (a) OVERRIDING SYSTEM VALUE` | `INSERT INTO t (a, "freestone$overriding")` |
//! | `INSERT INTO t BY NAME` | `INSERT INTO t AS "freestone$by_name"` |
//! | `PIVOT t ON a USING sum(b) GROUP BY c` | `SELECT "freestone$pivot"(a), sum(b) FROM t GROUP BY c` |
//! | `t AT (VERSION => n)` | `"freestone$at"('t', 'version', n)` |
//! | `UNPIVOT t ON a, b INTO NAME n VALUE v` | `SELECT "freestone$unpivot"(n, v), a, b FROM t` |
//!
//! If a query uses GLOBAL or STRAIGHT_JOIN itself, as in ClickHouse and MySQL, they are names.

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use super::sequence_options;

/// The call that represents USING SAMPLE, with a unit, an amount, and a seed.
pub(crate) const SAMPLE: &str = "freestone$sample";
/// The call that represents a LIMIT in percent.
pub(crate) const PERCENT: &str = "freestone$percent";
/// The table function that represents AT behind a table, with the table's name, a unit, and the value.
pub(crate) const AT: &str = "freestone$at";
/// The beginning of the name of a column that represents a constraint.
pub(crate) const CONSTRAINT: &str = "freestone$constraint:";
/// The column of an INSERT that represents OVERRIDING SYSTEM VALUE.
pub(crate) const OVERRIDING: &str = "freestone$overriding";
/// The alias that represents BY NAME.
pub(crate) const BY_NAME: &str = "freestone$by_name";
/// The call that represents ON in a PIVOT statement, with its expressions.
pub(crate) const PIVOT: &str = "freestone$pivot";
/// The call that represents INTO in an UNPIVOT statement: the name of the column of names, and those of the values.
pub(crate) const UNPIVOT: &str = "freestone$unpivot";
/// An argument of [`UNPIVOT`]: rows with NULL are included.
pub(crate) const INCLUDE_NULLS: &str = "freestone$include_nulls";

/// The tokens of a CREATE TABLE in which columns named `key` and `index` are quoted, because the parser would parse
/// them as the beginning of an index.
pub(crate) fn with_columns(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let word = |token: Option<&TokenWithSpan>, known: &str| match token.map(|token| &token.token) {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(known),
        _ => false,
    };
    if !word(tokens.first(), "CREATE") || !tokens.iter().take(6).any(|token| word(Some(token), "TABLE")) {
        return tokens;
    }
    let mut depth = 0;
    for at in 0..tokens.len() {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let begins = matches!(tokens[at].token, Token::LParen | Token::Comma) && depth == 1;
        let next = tokens.get(at + 1);
        let is_name = word(next, "KEY") || word(next, "INDEX");
        let has_type = matches!(tokens.get(at + 2).map(|token| &token.token), Some(Token::Word(_)));
        if begins && is_name && has_type {
            let name = tokens[at + 1].token.to_string().to_lowercase();
            tokens[at + 1].token = Token::make_word(&name, Some('"'));
        }
    }
    tokens
}

/// The tokens of a statement with these clauses replaced.
pub(crate) fn written(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const WORDS: [&str; 15] = [
        "CONSTRAINT",
        "OVERRIDING",
        "AT",
        "ASOF",
        "POSITIONAL",
        "SAMPLE",
        "TABLESAMPLE",
        "LIMIT",
        "NAME",
        "GLOBAL",
        "PIVOT",
        "UNPIVOT",
        "STRAIGHT_JOIN",
        "STRUCT",
        "ROW",
    ];
    let tokens = sequence_options::in_order(of_definition(tokens));
    let asks = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => {
            WORDS.iter().any(|known| known.eq_ignore_ascii_case(&word.value))
        }
        _ => false,
    };
    let ends = |two: &[TokenWithSpan]| {
        two[0].token == Token::Comma && matches!(two[1].token, Token::RParen | Token::RBracket | Token::RBrace)
    };
    let is_comma = tokens.last().is_some_and(|token| token.token == Token::Comma);
    if !is_comma && !tokens.iter().any(asks) && !tokens.windows(2).any(ends) {
        return tokens;
    }
    let tokens = pivots(tokens);
    let mut writer =
        Writer { tokens: &tokens, at: 0, out: Vec::with_capacity(tokens.len() + 8), qualifies: vec![false] };
    while writer.at < tokens.len() {
        if !writer.clause() {
            writer.copy();
        }
    }
    writer.out
}

/// Replaces DuckDB's `CREATE FUNCTION` by CREATE MACRO, and removes the parentheses of `INSERT INTO t (VALUES …)`.
fn of_definition(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    match word(tokens.first()).as_str() {
        "CREATE" => {
            let function = (1..tokens.len().min(5)).find(|at| word(tokens.get(*at)) == "FUNCTION");
            let is_other = tokens.iter().any(|token| matches!(word(Some(token)).as_str(), "RETURNS" | "LANGUAGE"));
            if let Some(function) = function.filter(|_| !is_other) {
                tokens[function].token = Token::make_keyword("MACRO");
            }
            tokens
        }
        "INSERT" => {
            let open = tokens.iter().position(|token| token.token == Token::LParen);
            let begins =
                |open: &usize| matches!(word(tokens.get(open + 1)).as_str(), "VALUES" | "FROM" | "PIVOT" | "UNPIVOT");
            if let Some(open) = open.filter(begins)
                && encloses(&tokens[open..])
            {
                tokens.pop();
                tokens.remove(open);
            }
            tokens
        }
        "EXPLAIN" => without_parentheses(tokens),
        _ => tokens,
    }
}

/// `EXPLAIN (SELECT …)` without the parentheses, which the parser takes for those of options.
fn without_parentheses(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const QUERIES: [&str; 6] = ["SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT"];
    let is_open =
        |tokens: &[TokenWithSpan], at: usize| matches!(tokens.get(at), Some(token) if token.token == Token::LParen);
    let is_query = |tokens: &[TokenWithSpan]| QUERIES.contains(&word(tokens.get(2)).as_str()) || is_open(tokens, 2);
    while is_open(&tokens, 1) && is_query(&tokens) {
        if encloses(&tokens[1..]) {
            tokens.pop();
            tokens.remove(1);
            continue;
        }
        // They are around a part of the query.
        let span = tokens[1].span;
        let before = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM"), Token::LParen];
        drop(tokens.splice(1..1, before.map(|token| TokenWithSpan::new(token, span))));
        tokens.push(TokenWithSpan::new(Token::RParen, span));
        break;
    }
    tokens
}

/// An unquoted word in upper case; empty for anything else.
fn word(token: Option<&TokenWithSpan>) -> String {
    match token.map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    }
}

struct Writer<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
    out: Vec<TokenWithSpan>,
    /// For each open parenthesis, whether the SELECT within has a QUALIFY.
    qualifies: Vec<bool>,
}

impl Writer<'_> {
    fn word(&self, ahead: usize) -> String {
        word(self.tokens.get(self.at + ahead))
    }

    fn is(&self, ahead: usize, token: &Token) -> bool {
        self.tokens.get(self.at + ahead).is_some_and(|found| found.token == *token)
    }

    fn push(&mut self, token: Token) {
        let span = self.tokens.get(self.at).map_or(Span::empty(), |token| token.span);
        self.out.push(TokenWithSpan::new(token, span));
    }

    fn keyword(&mut self, word: &str) {
        self.push(Token::make_keyword(word));
    }

    fn name(&mut self, name: &str) {
        self.push(Token::make_word(name, Some('"')));
    }

    fn copy(&mut self) {
        let token = self.tokens[self.at].clone();
        match (&token.token, self.word(0).as_str()) {
            // A comma before the end of a list.
            (Token::Comma, _) if self.ends_list(1) => {
                self.at += 1;
                return;
            }
            (Token::LParen, _) => self.qualifies.push(false),
            (Token::RParen, _) => drop(self.qualifies.pop()),
            (_, "QUALIFY") => self.set_qualifies(true),
            (_, "SELECT" | "UNION" | "INTERSECT" | "EXCEPT") => self.set_qualifies(false),
            _ => {}
        }
        self.out.push(token);
        self.at += 1;
    }

    fn ends_list(&self, ahead: usize) -> bool {
        match self.tokens.get(self.at + ahead).map(|token| &token.token) {
            None => self.tokens.first().is_some_and(|first| word(Some(first)) == "INSERT"),
            Some(token) => matches!(token, Token::RParen | Token::RBracket | Token::RBrace),
        }
    }

    fn set_qualifies(&mut self, qualifies: bool) {
        if let Some(last) = self.qualifies.last_mut() {
            *last = qualifies;
        }
    }

    /// Replaces the clause that begins here. Returns whether there is one.
    fn clause(&mut self) -> bool {
        match (self.word(0).as_str(), self.word(1).as_str()) {
            ("ASOF", next) if self.is_join(next) => {
                self.keyword("GLOBAL");
                self.at += 1;
                true
            }
            ("POSITIONAL", "JOIN") => {
                self.keyword("STRAIGHT_JOIN");
                self.at += 2;
                true
            }
            (own @ ("GLOBAL" | "STRAIGHT_JOIN"), _) => {
                self.name(&own.to_ascii_lowercase());
                self.at += 1;
                true
            }
            ("USING", "SAMPLE") => self.using_sample(),
            ("TABLESAMPLE", _) => self.table_sample(),
            ("LIMIT", _) => self.limit(),
            ("BY", "NAME") => self.by_name(),
            ("OVERRIDING", "SYSTEM") => self.overriding(),
            ("RENAME", "CONSTRAINT") => self.rename_constraint(),
            ("AT", _) => self.at_version(),
            ("STRUCT" | "ROW", _) => self.struct_type(),
            _ => false,
        }
    }

    fn is_join(&self, next: &str) -> bool {
        let is_kind = matches!(next, "LEFT" | "RIGHT" | "FULL" | "INNER" | "SEMI" | "ANTI");
        let outer = usize::from(self.word(2) == "OUTER");
        next == "JOIN" || is_kind && self.word(2 + outer) == "JOIN"
    }

    fn using_sample(&mut self) -> bool {
        let Some(sample) = Sample::read(&self.tokens[self.at + 2..]) else { return false };
        let qualifies = self.qualifies.last().copied().unwrap_or(false);
        self.keyword(if qualifies { "AND" } else { "QUALIFY" });
        self.name(SAMPLE);
        self.push(Token::LParen);
        self.push(Token::SingleQuotedString(if sample.percent { "percent" } else { "rows" }.into()));
        self.push(Token::Comma);
        self.push(sample.amount.clone());
        if let Some(seed) = sample.seed {
            self.push(Token::Comma);
            self.push(seed);
        }
        self.push(Token::RParen);
        self.at += 2 + sample.tokens;
        true
    }

    fn table_sample(&mut self) -> bool {
        let Some(sample) = Sample::read(&self.tokens[self.at + 1..]) else { return false };
        self.keyword("TABLESAMPLE");
        self.keyword("BERNOULLI");
        self.push(Token::LParen);
        self.push(sample.amount.clone());
        self.keyword(if sample.percent { "PERCENT" } else { "ROWS" });
        self.push(Token::RParen);
        if let Some(seed) = sample.seed {
            self.keyword("REPEATABLE");
            self.push(Token::LParen);
            self.push(seed);
            self.push(Token::RParen);
        }
        self.at += 1 + sample.tokens;
        true
    }

    /// Replaces `LIMIT n %` and `LIMIT n PERCENT`, if no operand of a modulo operator follows.
    fn limit(&mut self) -> bool {
        let Some(amount @ Token::Number(..)) = self.tokens.get(self.at + 1).map(|token| token.token.clone()) else {
            return false;
        };
        let ends = matches!(self.tokens.get(self.at + 3).map(|token| &token.token), None | Some(Token::RParen))
            || matches!(self.word(3).as_str(), "OFFSET" | "UNION" | "EXCEPT" | "INTERSECT");
        if !(self.is(2, &Token::Mod) && ends || self.word(2) == "PERCENT") {
            return false;
        }
        self.keyword("LIMIT");
        self.name(PERCENT);
        self.push(Token::LParen);
        self.push(amount);
        self.push(Token::RParen);
        self.at += 3;
        true
    }

    /// Whether what stands before says that a table is named here.
    fn is_name_of_table(&self) -> bool {
        const BEFORE: [&str; 9] = ["TABLE", "EXISTS", "INTO", "FROM", "JOIN", "UPDATE", "REFERENCES", "VIEW", "ONLY"];
        match self.at.checked_sub(1).and_then(|before| self.tokens.get(before)).map(|token| &token.token) {
            Some(Token::Word(word)) => BEFORE.contains(&word.value.to_ascii_uppercase().as_str()),
            Some(Token::Period) => true,
            _ => false,
        }
    }

    /// Replaces the type `STRUCT(a INT, b TEXT)` by `STRUCT<a INT, b TEXT>`, which the parser supports.
    fn struct_type(&mut self) -> bool {
        let is_name = |token: Option<&TokenWithSpan>| matches!(token.map(|token| &token.token), Some(Token::Word(_)));
        let named = is_name(self.tokens.get(self.at + 2)) && is_name(self.tokens.get(self.at + 3));
        let is_operator =
            matches!(self.word(3).as_str(), "AS" | "IN" | "IS" | "AND" | "OR" | "NOT" | "LIKE" | "BETWEEN");
        if !self.is(1, &Token::LParen) || !named || is_operator || self.is_name_of_table() {
            return false;
        }
        let mut depth = 0usize;
        let close = self.tokens[self.at + 1..].iter().position(|token| {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let Some(close) = close.map(|close| self.at + 1 + close) else { return false };
        self.keyword("STRUCT");
        self.push(Token::Lt);
        self.at += 2;
        while self.at < close {
            if !self.clause() {
                self.copy();
            }
        }
        self.push(Token::Gt);
        self.at = close + 1;
        true
    }

    /// Writes `RENAME CONSTRAINT a TO b` of an ALTER TABLE as that of a column.
    fn rename_constraint(&mut self) -> bool {
        let name = match self.tokens.get(self.at + 2).map(|token| &token.token) {
            Some(Token::Word(word)) if self.word(3) == "TO" => match word.quote_style {
                Some(_) => word.value.clone(),
                None => word.value.to_lowercase(),
            },
            _ => return false,
        };
        self.keyword("RENAME");
        self.keyword("COLUMN");
        self.name(&format!("{CONSTRAINT}{name}"));
        self.at += 3;
        true
    }

    /// Writes OVERRIDING SYSTEM VALUE of an INSERT as a column behind the others.
    fn overriding(&mut self) -> bool {
        if self.word(2) != "VALUE" || word(self.tokens.first()) != "INSERT" {
            return false;
        }
        match self.out.last().is_some_and(|last| last.token == Token::RParen) {
            true => {
                self.out.pop();
                self.push(Token::Comma);
            }
            false => self.push(Token::LParen),
        }
        self.name(OVERRIDING);
        self.push(Token::RParen);
        self.at += 3;
        true
    }

    /// `t AT (VERSION => n)` and `t AT (TIMESTAMP => time)`, up to the value. What follows it is read as usual.
    fn at_version(&mut self) -> bool {
        let unit = self.word(2);
        let is_version = self.is(1, &Token::LParen)
            && matches!(unit.as_str(), "VERSION" | "TIMESTAMP")
            && self.is(3, &Token::RArrow);
        let Some(name) = is_version.then(|| self.take_name()).flatten() else { return false };
        // The parser's name of a table function is its text, with quotes.
        self.push(Token::make_word(AT, None));
        self.push(Token::LParen);
        self.push(Token::SingleQuotedString(name));
        self.push(Token::Comma);
        self.push(Token::SingleQuotedString(unit.to_ascii_lowercase()));
        self.push(Token::Comma);
        self.qualifies.push(false);
        self.at += 4;
        true
    }

    /// Takes back the name of a table that was just written, as SQL folds it.
    fn take_name(&mut self) -> Option<String> {
        let mut parts = vec![];
        loop {
            let Some(TokenWithSpan { token: Token::Word(word), .. }) = self.out.last() else { return None };
            parts.push(match word.quote_style {
                Some(_) => word.value.clone(),
                None => word.value.to_lowercase(),
            });
            self.out.pop();
            if self.out.last().is_none_or(|before| before.token != Token::Period) {
                break;
            }
            self.out.pop();
        }
        parts.reverse();
        Some(parts.join("."))
    }

    /// Replaces BY NAME and BY POSITION after the table of an INSERT.
    fn by_name(&mut self) -> bool {
        let is_insert = self.tokens.iter().take(self.at).any(|token| word(Some(token)) == "INSERT")
            && self.tokens.get(self.at.wrapping_sub(2)).is_some_and(|before| {
                matches!(word(Some(before)).as_str(), "INTO" | "TABLE") || before.token == Token::Period
            });
        if !is_insert {
            return false;
        }
        self.keyword("AS");
        self.name(BY_NAME);
        self.at += 2;
        true
    }
}

/// The specification after SAMPLE.
struct Sample {
    percent: bool,
    amount: Token,
    seed: Option<Token>,
    /// The number of its tokens.
    tokens: usize,
}

impl Sample {
    /// Parses `10`, `10%`, `10 PERCENT (method, seed)`, `method(10 ROWS)`, each with an optional REPEATABLE (seed).
    fn read(tokens: &[TokenWithSpan]) -> Option<Sample> {
        let token = |at: usize| tokens.get(at).map(|token| &token.token);
        let is_method =
            |at: usize| matches!(word(tokens.get(at)).as_str(), "BERNOULLI" | "SYSTEM" | "RESERVOIR" | "ROW" | "BLOCK");
        let begins_with_method = is_method(0);
        let mut at = usize::from(begins_with_method);
        let in_parentheses = token(at) == Some(&Token::LParen);
        at += usize::from(in_parentheses);
        let amount = token(at).filter(|token| matches!(token, Token::Number(..)))?.clone();
        at += 1;
        let percent = match (token(at), word(tokens.get(at)).as_str()) {
            (Some(Token::Mod), _) | (_, "PERCENT") => Some(true),
            (_, "ROWS") => Some(false),
            _ => None,
        };
        at += usize::from(percent.is_some());
        if in_parentheses {
            at += usize::from(token(at) == Some(&Token::RParen));
        }
        let mut seed = None;
        if token(at) == Some(&Token::LParen) && is_method(at + 1) {
            at += 2;
            if token(at) == Some(&Token::Comma) {
                seed = token(at + 1).cloned();
                at += 2;
            }
            at += usize::from(token(at) == Some(&Token::RParen));
        }
        if word(tokens.get(at)) == "REPEATABLE" && token(at + 1) == Some(&Token::LParen) {
            seed = token(at + 2).cloned();
            at += 4;
        }
        // The sizes of PostgreSQL's methods are percentages.
        let percent = percent.unwrap_or(begins_with_method && word(tokens.first()) != "RESERVOIR");
        Some(Sample { percent, amount, seed, tokens: at })
    }
}

/// Replaces PIVOT and UNPIVOT statements, wherever a query may begin.
fn pivots(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begins = |at: usize| {
        let is_pivot = matches!(word(tokens.get(at)).as_str(), "PIVOT" | "UNPIVOT" | "PIVOT_WIDER" | "PIVOT_LONGER");
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        let is_first = before.is_none_or(|before| {
            before.token == Token::LParen
                || before.token == Token::RParen
                || matches!(word(Some(before)).as_str(), "AS" | "EXPLAIN" | "ANALYZE" | "ALL" | "UNION" | "DESCRIBE")
        });
        // `t PIVOT (…)` and `(SELECT …) PIVOT (…)` are clauses of FROM.
        is_pivot && is_first && !is_clause(&tokens, at)
    };
    match (0..tokens.len()).find(|at| begins(*at)) {
        None => tokens,
        Some(at) => match Pivot::read(&tokens, at) {
            None => tokens,
            Some(pivot) => {
                let mut written = tokens[..at].to_vec();
                written.extend(pivot.written());
                // The rest may contain further ones.
                written.extend(pivots(tokens[pivot.end..].to_vec()));
                written
            }
        },
    }
}

/// Whether PIVOT is a clause after a table: `(aggregate FOR …)` follows.
fn is_clause(tokens: &[TokenWithSpan], at: usize) -> bool {
    let mut depth = 0usize;
    for token in &tokens[at + 1..] {
        match (&token.token, word(Some(token)).as_str()) {
            (Token::LParen, _) => depth += 1,
            (Token::RParen, _) if depth <= 1 => return false,
            (Token::RParen, _) => depth -= 1,
            (_, "FOR") if depth == 1 => return true,
            _ if depth == 0 && matches!(word(Some(token)).as_str(), "ON" | "USING" | "GROUP") => return false,
            _ => {}
        }
    }
    false
}

/// The parts of a statement PIVOT or UNPIVOT, as tokens.
struct Pivot<'a> {
    is_unpivot: bool,
    span: Span,
    source: &'a [TokenWithSpan],
    /// Empty for all rows.
    on: &'a [TokenWithSpan],
    using: &'a [TokenWithSpan],
    /// GROUP BY, ORDER BY and LIMIT, unchanged.
    rest: &'a [TokenWithSpan],
    includes_nulls: bool,
    end: usize,
}

impl<'a> Pivot<'a> {
    fn read(tokens: &'a [TokenWithSpan], at: usize) -> Option<Pivot<'a>> {
        let is_unpivot = matches!(word(tokens.get(at)).as_str(), "UNPIVOT" | "PIVOT_LONGER");
        let mut depth = 0usize;
        let mut end = tokens.len();
        let (mut on, mut using, mut rest) = (None, None, None);
        for (index, token) in tokens.iter().enumerate().skip(at + 1) {
            match (&token.token, word(Some(token)).as_str()) {
                (Token::LParen, _) => depth += 1,
                (Token::RParen, _) if depth == 0 => {
                    end = index;
                    break;
                }
                (Token::RParen, _) => depth -= 1,
                (_, "ON") if depth == 0 && on.is_none() => {
                    on = Some(index);
                    // USING before ON belongs to a join.
                    using = None;
                }
                (_, "USING" | "INTO") if depth == 0 && using.is_none() => using = Some(index),
                (_, "GROUP" | "ORDER" | "LIMIT") if depth == 0 && rest.is_none() => rest = Some(index),
                (_, "UNION" | "EXCEPT" | "INTERSECT") if depth == 0 => {
                    end = index;
                    break;
                }
                _ => {}
            }
        }
        let rest = rest.unwrap_or(end);
        let on_end = using.unwrap_or(rest);
        if on.is_none() && (is_unpivot || on_end == end) {
            return None;
        }
        let mut on_tokens = on.map_or(Some(&[][..]), |on| tokens.get(on + 1..on_end))?;
        let mut source = tokens.get(at + 1..on.unwrap_or(on_end))?;
        let mut includes_nulls = false;
        if is_unpivot && word(source.last()) == "NULLS" {
            includes_nulls = word(source.get(source.len().wrapping_sub(2))) == "INCLUDE";
            source = source.get(..source.len().checked_sub(2)?)?;
        } else if is_unpivot && word(source.get(1)) == "NULLS" {
            includes_nulls = word(source.first()) == "INCLUDE";
            source = source.get(2..)?;
        }
        // In `ON (a, b) INTO …`, the parentheses enclose a list.
        if is_unpivot && on_tokens.first().is_some_and(|token| token.token == Token::LParen) && encloses(on_tokens) {
            on_tokens = &on_tokens[1..on_tokens.len() - 1];
        }
        let using = using.map_or(&[][..], |using| &tokens[using + 1..rest]);
        let (span, rest) = (tokens[at].span, &tokens[rest..end]);
        Some(Pivot { is_unpivot, span, source, on: on_tokens, using, rest, includes_nulls, end })
    }

    fn written(&self) -> Vec<TokenWithSpan> {
        let token = |token: Token| TokenWithSpan::new(token, self.span);
        let name = |name: &str| token(Token::make_word(name, Some('"')));
        let mut out = vec![token(Token::make_keyword("SELECT"))];
        out.push(name(if self.is_unpivot { UNPIVOT } else { PIVOT }));
        out.push(token(Token::LParen));
        let (arguments, items) = if self.is_unpivot { (self.names(), self.on) } else { (self.on.to_vec(), self.using) };
        out.extend(arguments);
        out.push(token(Token::RParen));
        if !items.is_empty() {
            out.push(token(Token::Comma));
            out.extend(items.iter().cloned());
        }
        out.push(token(Token::make_keyword("FROM")));
        out.extend(self.source.iter().cloned());
        out.extend(self.rest.iter().cloned());
        out
    }

    /// `NAME n VALUE v, w` as arguments.
    fn names(&self) -> Vec<TokenWithSpan> {
        let mut names = match self.using {
            [first, name, value, values @ ..] if word(Some(first)) == "NAME" && word(Some(value)) == "VALUE" => {
                let values = values.iter().filter(|token| token.token != Token::Comma);
                std::iter::once(name).chain(values).cloned().collect()
            }
            _ => ["name", "value"].map(|name| TokenWithSpan::new(Token::make_word(name, None), self.span)).to_vec(),
        };
        if self.includes_nulls {
            names.push(TokenWithSpan::new(Token::make_word(INCLUDE_NULLS, Some('"')), self.span));
        }
        let comma = TokenWithSpan::new(Token::Comma, self.span);
        let mut list = Vec::with_capacity(names.len() * 2);
        for (at, name) in names.into_iter().enumerate() {
            if at > 0 {
                list.push(comma.clone());
            }
            list.push(name);
        }
        list
    }
}

/// Whether the first parenthesis is closed by the last token.
fn encloses(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1 == tokens.len();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::sql::dialect::SqlDialect;

    fn check(sql: &str, expected: &str) {
        let tokens = |sql: &str| -> Vec<TokenWithSpan> {
            let tokens = Tokenizer::new(&SqlDialect, sql).tokenize_with_location().expect("SQL");
            tokens.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF)).collect()
        };
        let text =
            |tokens: Vec<TokenWithSpan>| tokens.iter().map(|t| t.token.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(text(written(tokens(sql))), text(tokens(expected)), "{sql}");
    }

    #[test]
    fn clauses_are_written_in_words_of_the_parser() {
        for (sql, expected) in [
            ("SELECT * FROM a ASOF JOIN b ON x", "SELECT * FROM a GLOBAL JOIN b ON x"),
            ("FROM a ASOF LEFT JOIN b USING (k, t)", "FROM a GLOBAL LEFT JOIN b USING (k, t)"),
            ("FROM a POSITIONAL JOIN b", "FROM a STRAIGHT_JOIN b"),
            ("FROM a GLOBAL JOIN b ON x", "FROM a \"global\" JOIN b ON x"),
            ("SELECT a FROM t USING SAMPLE 10%", "SELECT a FROM t QUALIFY \"freestone$sample\"('percent', 10)"),
            (
                "SELECT a FROM t QUALIFY b USING SAMPLE reservoir(5 ROWS) REPEATABLE (7) LIMIT 1",
                "SELECT a FROM t QUALIFY b AND \"freestone$sample\"('rows', 5, 7) LIMIT 1",
            ),
            ("FROM t USING SAMPLE 20% (system, 377)", "FROM t QUALIFY \"freestone$sample\"('percent', 20, 377)"),
            ("FROM t TABLESAMPLE reservoir(20%)", "FROM t TABLESAMPLE BERNOULLI (20 PERCENT)"),
            ("FROM t TABLESAMPLE SYSTEM (20)", "FROM t TABLESAMPLE BERNOULLI (20 PERCENT)"),
            ("FROM t TABLESAMPLE 5", "FROM t TABLESAMPLE BERNOULLI (5 ROWS)"),
            ("FROM t LIMIT 10 %", "FROM t LIMIT \"freestone$percent\"(10)"),
            ("FROM t LIMIT 10 % 3", "FROM t LIMIT 10 % 3"),
            ("INSERT INTO t BY NAME SELECT 1", "INSERT INTO t AS \"freestone$by_name\" SELECT 1"),
            ("SELECT 1 UNION ALL BY NAME SELECT 2", "SELECT 1 UNION ALL BY NAME SELECT 2"),
            ("INSERT INTO t (VALUES (1), (2),)", "INSERT INTO t VALUES (1), (2)"),
            ("CREATE TABLE t (a INT, b INT,)", "CREATE TABLE t (a INT, b INT)"),
            ("CREATE TABLE struct (a INT, b TEXT)", "CREATE TABLE struct (a INT, b TEXT)"),
            ("EXPLAIN (SELECT 1)", "EXPLAIN SELECT 1"),
            ("EXPLAIN ((SELECT 1))", "EXPLAIN SELECT 1"),
            ("EXPLAIN (SELECT 1) UNION SELECT 2", "EXPLAIN SELECT * FROM ((SELECT 1) UNION SELECT 2)"),
            ("EXPLAIN (ANALYZE) SELECT 1", "EXPLAIN (ANALYZE) SELECT 1"),
            (
                "SELECT struct(a, b), x::STRUCT(a INT, b STRUCT(c INT))",
                "SELECT struct(a, b), x::STRUCT<a INT, b STRUCT<c INT> >",
            ),
            ("CREATE FUNCTION f(a) AS a + 1", "CREATE MACRO f(a) AS a + 1"),
            (
                "PIVOT t ON a, b IN (1, 2) USING sum(x) AS s, max(y) GROUP BY g ORDER BY g",
                "SELECT \"freestone$pivot\"(a, b IN (1, 2)), sum(x) AS s, max(y) FROM t GROUP BY g ORDER BY g",
            ),
            ("FROM (PIVOT t ON a)", "FROM (SELECT \"freestone$pivot\"(a) FROM t)"),
            ("PIVOT t USING sum(a) GROUP BY b", "SELECT \"freestone$pivot\"(), sum(a) FROM t GROUP BY b"),
            (
                "UNPIVOT t INCLUDE NULLS ON a, (b, c) INTO NAME n VALUE v, w",
                "SELECT \"freestone$unpivot\"(n, v, w, \"freestone$include_nulls\"), a, (b, c) FROM t",
            ),
            ("FROM t PIVOT (sum(x) FOR y IN (1))", "FROM t PIVOT (sum(x) FOR y IN (1))"),
            ("FROM (SELECT 1) PIVOT (sum(x) FOR y IN (1))", "FROM (SELECT 1) PIVOT (sum(x) FOR y IN (1))"),
        ] {
            check(sql, expected);
        }
    }
}
