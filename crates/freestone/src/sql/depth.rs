//! Statements of any length, on stacks that are large enough for them.
//!
//! A parser makes of `a AND b AND c …` a tree whose depth is the length of the chain, and every function that visits or
//! drops the tree needs a stack frame per level. A few thousand terms, as query builders write them, would overflow the
//! stack of a thread and end the process. Therefore chains of AND and OR are converted to balanced trees with the same
//! meaning, deeper nesting than [`LEVELS_MAX`] is an error, and long statements are parsed and planned on a stack of
//! their own.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, Value, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Error, Result};
use crate::limits::{LEVELS_MAX, NESTED_MAX};
use crate::sql::visitor;

/// The limit of the parser. Statements that [`check_nesting`] accepts do not reach it. At its limit, the parser would
/// try other forms of the statement, at every level.
pub(crate) const PARSER_LEVELS_MAX: usize = 8 * NESTED_MAX;

/// Statements with more tokens than this get a stack of their own.
const TOKENS_MAX: usize = 120;
/// The number of tokens of work that needs such a stack, whatever its statement.
pub(crate) const LONG_TOKENS: usize = TOKENS_MAX + 1;

/// The bytes of that stack. The system allocates only the used part.
const STACK_BYTES: usize = 512 << 20;

/// The bytes that the stack of a thread for queries should have, because plans of long statements are visited there.
pub const THREAD_STACK_BYTES: usize = 16 << 20;

thread_local! {
    /// The number of tokens of the statement that this thread processes.
    static TOKENS: Cell<usize> = const { Cell::new(0) };
}

/// Calls `work` on a stack that is large enough for a statement of `tokens` tokens.
pub(crate) fn with_stack<T>(tokens: usize, work: impl FnOnce() -> T) -> T {
    if tokens <= TOKENS_MAX || TOKENS.get() > TOKENS_MAX {
        return work();
    }
    /// Restores the count, even if `work` panics.
    struct DepthGuard(usize);
    impl Drop for DepthGuard {
        fn drop(&mut self) {
            TOKENS.set(self.0);
        }
    }
    let _restored = DepthGuard(TOKENS.replace(tokens));
    stacker::grow(STACK_BYTES, work)
}

/// The number of tokens of the statement that this thread processes, for work that continues in another thread.
pub(crate) fn tokens_here() -> usize {
    TOKENS.get()
}

/// A future that is polled and dropped on a stack that is large enough for a statement of `tokens` tokens.
pub(crate) struct OnStack<'a, T> {
    tokens: usize,
    future: Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>,
}

impl<'a, T> OnStack<'a, T> {
    pub(crate) fn new(tokens: usize, future: impl Future<Output = T> + Send + 'a) -> Self {
        OnStack { tokens, future: Some(Box::pin(future)) }
    }
}

impl<T> Future for OnStack<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let tokens = self.tokens;
        match &mut self.future {
            Some(future) => with_stack(tokens, || future.as_mut().poll(context)),
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for OnStack<'_, T> {
    fn drop(&mut self) {
        let future = self.future.take();
        with_stack(self.tokens, || drop(future));
    }
}

/// Refuses tokens that are nested too deeply, before they are parsed.
///
/// # Errors
/// Of kind [`ErrorKind::Resource`] (SQLSTATE 54001), with the limit.
pub(crate) fn check_nesting(tokens: &[TokenWithSpan]) -> Result<()> {
    // The levels that each open parenthesis or CASE adds: one for itself, and one per sign and NOT before it.
    let mut open: Vec<usize> = vec![];
    let (mut levels, mut prefixes) = (0, 0);
    let mut suffixes = Suffixes::default();
    for token in tokens {
        let before = std::mem::take(&mut prefixes);
        let keyword = match &token.token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        suffixes.see(&token.token, keyword)?;
        match (&token.token, keyword) {
            (Token::LParen | Token::LBracket | Token::LBrace, _) | (_, Keyword::CASE) => {
                open.push(before + 1);
                levels += before + 1;
            }
            (Token::RParen | Token::RBracket | Token::RBrace, _) | (_, Keyword::END) => {
                levels -= open.pop().unwrap_or(0);
            }
            (Token::Minus | Token::Plus | Token::Tilde, _) | (_, Keyword::NOT) => prefixes = before + 1,
            _ => {}
        }
        if levels + prefixes > NESTED_MAX {
            return Err(Error::too_deep());
        }
    }
    Ok(())
}

/// Counts brackets one behind the other, each of which is around what stands before it: `INT[][]`, `a[1][2]`,
/// `ARRAY<ARRAY<INT>>`.
#[derive(Default)]
struct Suffixes {
    count: usize,
    angles: usize,
    /// Whether the last token ends a bracket, or is a type that may have angles behind it.
    after_bracket: bool,
    after_type: bool,
}

impl Suffixes {
    fn see(&mut self, token: &Token, keyword: Keyword) -> Result<()> {
        match token {
            Token::Whitespace(_) => return Ok(()),
            Token::LBracket => self.count = if self.after_bracket { self.count + 1 } else { 1 },
            Token::Lt if self.after_type => self.angles += 1,
            Token::Gt => self.angles = self.angles.saturating_sub(1),
            _ => {}
        }
        self.after_bracket = *token == Token::RBracket;
        self.after_type = matches!(keyword, Keyword::ARRAY | Keyword::STRUCT | Keyword::MAP);
        if self.count.max(self.angles) > NESTED_MAX { Err(Error::too_deep()) } else { Ok(()) }
    }
}

/// Balances the chains of a statement, and refuses too deep nesting.
///
/// # Errors
/// Of kind [`ErrorKind::Resource`] (SQLSTATE 54001), with the limit.
pub(crate) fn bound<T: VisitMut + Visit>(statement: &mut T) -> Result<()> {
    let _ = visitor::visit_mut(statement, &mut Balance);
    let mut depth = Depth::default();
    match visitor::visit(statement, &mut depth) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::too_deep()),
    }
}

struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), left, .. } = expr
            && matches!(&**left, Expr::BinaryOp { op: inner, .. } if inner == op)
        {
            let op = op.clone();
            let mut terms = vec![];
            let mut rest = std::mem::replace(expr, placeholder());
            loop {
                match rest {
                    Expr::BinaryOp { left, op: inner, right } if inner == op => {
                        terms.push(*right);
                        rest = *left;
                    }
                    first => {
                        terms.push(first);
                        break;
                    }
                }
            }
            terms.reverse();
            *expr = balanced(terms, &op);
        }
        ControlFlow::Continue(())
    }
}

fn placeholder() -> Expr {
    Expr::Value(Value::Null.with_empty_span())
}

/// A tree of the terms in their order, whose depth is the logarithm of their number.
fn balanced(mut terms: Vec<Expr>, op: &BinaryOperator) -> Expr {
    while terms.len() > 1 {
        let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
        let mut rest = terms.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) },
                None => left,
            });
        }
        terms = pairs;
    }
    terms.pop().unwrap_or_else(placeholder)
}

#[derive(Default)]
struct Depth {
    levels: usize,
}

impl Depth {
    fn enter(&mut self, levels: usize) -> ControlFlow<()> {
        self.levels += levels;
        if self.levels > LEVELS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.enter(1)
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.levels -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.enter(set_levels(&query.body))
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.levels -= set_levels(&query.body);
        ControlFlow::Continue(())
    }
}

/// The levels of a query with the set operations before its last one: `a UNION b UNION c` has three levels.
fn set_levels(body: &SetExpr) -> usize {
    let mut levels = 1;
    let mut body = body;
    while let SetExpr::SetOperation { left, .. } = body {
        levels += 1;
        body = left;
    }
    levels
}
