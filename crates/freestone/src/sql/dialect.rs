//! The dialect of SQL that is parsed: sqlparser's generic one, with the operators and the precedence of PostgreSQL.
//!
//! `^` is exponentiation, and `#` is the exclusive or of integers. A sign has a higher precedence than `^`. `|`, `&`,
//! `#`, `<<`, `>>`, `||` and the pattern operators have the same precedence, which is lower than that of `+`. LIKE and
//! BETWEEN have a higher precedence than `=`. The right operand of IS DISTINCT FROM ends before AND, which the parser
//! would include. `1_000_000` is one number.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::expressions;

/// The precedence of a sign before an expression.
const SIGN: u8 = 46;
/// The precedence of operators without an entry of their own.
const OTHER: u8 = 25;

/// The dialect of every statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SqlDialect;

/// Methods that return what the generic dialect returns.
macro_rules! generic {
    ($($question:ident)*) => {
        $(fn $question(&self) -> bool {
            GenericDialect.$question()
        })*
    };
}

impl Dialect for SqlDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        GenericDialect.is_delimited_identifier_start(character)
    }

    fn is_identifier_start(&self, character: char) -> bool {
        character != '#' && GenericDialect.is_identifier_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        character != '#' && GenericDialect.is_identifier_part(character)
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::AtTz => 44,
            Precedence::Caret => 42,
            Precedence::Xor | Precedence::Ampersand | Precedence::Pipe | Precedence::PgOther => OTHER,
            Precedence::Between | Precedence::Like => 21,
            other => GenericDialect.prec_value(other),
        }
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        let is_other = matches!(
            parser.peek_token_ref().token,
            Token::Sharp
                | Token::ShiftLeft
                | Token::ShiftRight
                | Token::StringConcat
                | Token::Tilde
                | Token::TildeAsterisk
                | Token::ExclamationMarkTilde
                | Token::ExclamationMarkTildeAsterisk
                | Token::DoubleTilde
                | Token::DoubleTildeAsterisk
                | Token::ExclamationMarkDoubleTilde
                | Token::ExclamationMarkDoubleTildeAsterisk
                | Token::CaretAt
        );
        match is_other {
            true => Some(Ok(OTHER)),
            false => expressions::precedence(parser).map(Ok),
        }
    }

    /// Whether a word is the alias of a table. STRAIGHT_JOIN is not, because it represents POSITIONAL JOIN; see
    /// [`super::spellings`].
    fn is_table_factor_alias(&self, explicit: bool, keyword: &Keyword, parser: &mut Parser) -> bool {
        explicit || *keyword != Keyword::STRAIGHT_JOIN && self.is_table_alias(keyword, parser)
    }

    /// Whether a word is the alias of a column. ON is not, without AS, because ON CONFLICT may follow the rows of an INSERT.
    fn is_select_item_alias(&self, explicit: bool, keyword: &Keyword, parser: &mut Parser) -> bool {
        explicit || *keyword != Keyword::ON && self.is_column_alias(keyword, parser)
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    fn supports_notnull_operator(&self) -> bool {
        true
    }

    fn supports_create_table_like_parenthesized(&self) -> bool {
        true
    }

    fn supports_insert_table_alias(&self) -> bool {
        true
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let op = match parser.peek_token_ref().token {
            Token::Minus => UnaryOperator::Minus,
            Token::Plus => UnaryOperator::Plus,
            _ => return expressions::prefix(parser),
        };
        parser.advance_token();
        Some(parser.parse_subexpr(SIGN).map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }

    fn parse_infix(&self, parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        let op = match parser.peek_token_ref().token {
            Token::Caret => BinaryOperator::PGExp,
            Token::Sharp => BinaryOperator::PGBitwiseXor,
            _ => {
                return expressions::infix(parser, left, precedence)
                    .or_else(|| distinct_from(parser, left, precedence));
            }
        };
        parser.advance_token();
        let left = Box::new(left.clone());
        Some(parser.parse_subexpr(precedence).map(|right| Expr::BinaryOp { left, op, right: Box::new(right) }))
    }

    generic! {
        supports_unicode_string_literal supports_partition_by_after_order_by supports_array_join_syntax
        supports_group_by_expr supports_group_by_with_modifier supports_left_associative_joins_without_parens
        supports_connect_by supports_match_recognize supports_pipe_operator supports_start_transaction_modifier
        supports_window_function_null_treatment_arg supports_dictionary_syntax
        supports_window_clause_named_window_reference supports_parenthesized_set_variables
        supports_select_wildcard_except support_map_literal_syntax allow_extract_custom allow_extract_single_quotes
        supports_extract_comma_syntax supports_create_view_comment_syntax supports_parens_around_table_factor
        supports_values_as_table_factor supports_create_index_with_clause supports_explain_with_utility_options
        supports_limit_comma supports_update_order_by supports_from_first_select supports_projection_trailing_commas
        supports_asc_desc_in_column_definition supports_try_convert supports_bitwise_shift_operators
        supports_comment_on supports_load_extension supports_named_fn_args_with_assignment_operator
        supports_struct_literal supports_empty_projections supports_nested_comments supports_multiline_comment_hints
        supports_user_host_grantee supports_string_escape_constant supports_array_typedef_with_brackets
        supports_match_against supports_set_names supports_comma_separated_set_assignments
        supports_filter_during_aggregation supports_select_wildcard_exclude supports_data_type_signed_suffix
        supports_interval_options supports_quote_delimited_string supports_select_wildcard_replace
        supports_select_wildcard_ilike supports_select_wildcard_rename supports_optimize_table supports_install
        supports_detach supports_prewhere supports_with_fill supports_limit_by supports_interpolate supports_settings
        supports_select_format supports_comment_optimizer_hint supports_constraint_keyword_without_name
        supports_key_column_option supports_comma_separated_trim supports_cte_without_as
        supports_select_item_multi_column_alias supports_xml_expressions
    }
}

/// Parses `left IS [NOT] DISTINCT FROM right`, with the parser at IS.
fn distinct_from(parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let negated = if parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
        false
    } else if parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]) {
        true
    } else {
        return None;
    };
    let left = Box::new(left.clone());
    Some(parser.parse_subexpr(precedence).map(|right| match negated {
        false => Expr::IsDistinctFrom(left, Box::new(right)),
        true => Expr::IsNotDistinctFrom(left, Box::new(right)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of a tree with all its parentheses.
    fn nested(expr: &Expr) -> String {
        match expr {
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", nested(left), nested(right)),
            Expr::UnaryOp { op, expr } => format!("({op} {})", nested(expr)),
            Expr::IsDistinctFrom(left, right) => format!("({} ID {})", nested(left), nested(right)),
            Expr::IsNotDistinctFrom(left, right) => format!("({} IND {})", nested(left), nested(right)),
            Expr::IsNull(inner) => format!("({} IN)", nested(inner)),
            Expr::Like { expr, pattern, .. } => format!("({} L {})", nested(expr), nested(pattern)),
            Expr::Between { expr, low, high, .. } => format!("({} B {} {})", nested(expr), nested(low), nested(high)),
            Expr::Cast { expr, data_type, .. } => format!("({} :: {data_type})", nested(expr)),
            other => other.to_string(),
        }
    }

    #[test]
    fn operators_bind_as_in_postgres() {
        for (sql, expected) in [
            ("a IS DISTINCT FROM b AND c", "((a ID b) AND c)"),
            ("a IS NOT DISTINCT FROM b = c OR d", "((a IND (b = c)) OR d)"),
            ("NOT a IS DISTINCT FROM b", "(NOT (a ID b))"),
            ("-a ^ b * c", "(((- a) ^ b) * c)"),
            ("a ^ b ^ c", "((a ^ b) ^ c)"),
            ("a ^ -b", "(a ^ (- b))"),
            ("-a::INT", "(- (a :: INT))"),
            ("a + b | c << d - e", "(((a + b) | c) << (d - e))"),
            ("a # b & c", "((a # b) & c)"),
            ("a#b", "(a # b)"),
            ("a || b + c", "(a || (b + c))"),
            ("a = b LIKE c || d", "(a = (b L (c || d)))"),
            ("a BETWEEN b AND c = d", "((a B b c) = d)"),
            ("a = b IS NULL", "((a = b) IN)"),
            ("a ~ b = c", "((a ~ b) = c)"),
            ("a // b - c % d", "((a // b) - (c % d))"),
            ("1_000_000 + 1_0.5_0", "(1_000_000 + 1_0.5_0)"),
        ] {
            let mut parser = Parser::new(&SqlDialect).try_with_sql(sql).expect(sql);
            assert_eq!(nested(&parser.parse_expr().expect(sql)), expected, "{sql}");
            assert_eq!(parser.peek_token().token, Token::EOF, "{sql}");
        }
    }
}
