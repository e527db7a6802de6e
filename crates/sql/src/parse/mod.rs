//! Parsing: a statement's text becomes the syntax tree of this crate, in which nodes know their source positions.
//!
//! `lexer` makes tokens; `parser` walks over them with one function for each rule of the grammar; `syntax` is the tree.
//! Invariants: no input makes the parser panic or exhaust the stack, because nesting and the height of expressions are
//! limited; messages and positions are PostgreSQL's (`syntax error at or near "…"`).

mod dml;
mod domains;
mod expressions;
mod from;
mod functions;
mod keywords;
mod lexer;
pub(crate) mod normalize;
mod objects;
mod parser;
mod primary;
mod privileges;
mod queries;
mod roles;
mod routines;
mod statements;
pub(crate) mod syntax;
mod tables;
pub(crate) mod template;
#[cfg(test)]
mod tests;
mod transactions;
mod traversal;
mod types;
mod utility;

use std::ops::Range;

use crate::error::Result;
use crate::parse::syntax::{Expr, ParsedStatement, Query, TypeName};

pub(crate) use keywords::{qualified_name, quote_identifier};
pub(crate) use lexer::TokenKind;
pub(crate) use parser::{Parser, Reference, character_position};
pub(crate) use tables::{is_storage_parameter, option_texts};

/// Maximum nesting depth of expressions, queries and parentheses.
pub(crate) const NESTING_MAX: u32 = 160;

/// Maximum number of levels of operators in an expression: `1 + 1 + …` nests to the left without parentheses.
pub(crate) const HEIGHT_MAX: u32 = 700;

/// The statements of a client's text or of a routine's body, which may be empty. Its memory counts among that of statements.
///
/// # Errors
/// 42601 with the position; 54001 if the text nests too deeply; 53200 if it needs more memory than there is.
pub(crate) fn parse(text: &str) -> Result<Vec<ParsedStatement>> {
    Parser::counted(text)?.statements()
}

/// One expression, as the catalog keeps defaults and checks.
///
/// # Errors
/// Same errors as [`parse`], but for 53200.
pub(crate) fn parse_expression(text: &str) -> Result<Expr> {
    let mut parser = Parser::new(text)?;
    let expr = parser.expression()?;
    parser.end_of_text()?;
    Ok(expr)
}

/// Returns true if a text is the call of one function, which needs no parentheses around it.
pub(crate) fn is_call(text: &str) -> bool {
    parse_expression(text).is_ok_and(|expr| matches!(expr.kind, syntax::ExprKind::Call(_)))
}

/// One query, as the catalog keeps views.
///
/// # Errors
/// Same errors as [`parse`].
pub(crate) fn parse_query(text: &str) -> Result<Query> {
    let mut parser = Parser::new(text)?;
    let query = parser.query()?;
    parser.end_of_text()?;
    Ok(query)
}

/// A name that may be qualified, as `regclass` reads it.
///
/// # Errors
/// Same errors as [`parse`].
pub(crate) fn parse_name(text: &str) -> Result<syntax::ObjectName> {
    let mut parser = Parser::counted(text)?;
    let name = parser.object_name()?;
    parser.end_of_text()?;
    Ok(name)
}

/// A name that may be qualified, in which keywords need no quotes, as `regprocedure` reads it.
///
/// # Errors
/// Same errors as [`parse`].
pub(crate) fn parse_name_of_labels(text: &str) -> Result<syntax::ObjectName> {
    let mut parser = Parser::counted(text)?;
    let mut parts = vec![parser.label()?];
    while parser.accept_mark(".") {
        parts.push(parser.label()?);
    }
    parser.end_of_text()?;
    Ok(syntax::ObjectName { parts })
}

/// A catalog text with a column's name replaced by another.
pub(crate) fn with_renamed(text: &str, from: &str, to: &str) -> String {
    Parser::new(text).map_or(text.to_string(), |parser| parser.with_renamed(from, &quote_identifier(to)))
}

/// A table's text with the table's name, where it qualifies columns, replaced by another.
pub(crate) fn with_renamed_table(text: &str, from: &str, to: &str) -> String {
    Parser::new(text)
        .map_or(text.to_string(), |parser| parser.with_renamed_table(from, &quote_identifier(to)))
}

/// Returns true if a trigger's condition names a row, `old` or `new`.
pub(crate) fn names_row(text: &str, row: &str) -> bool {
    Parser::new(text).is_ok_and(|parser| parser.names_row(row))
}

/// The fields of OLD (`true`) and NEW that a trigger's function or condition names; `None` if it uses one of them in another way than by
/// its fields, or cannot be read.
pub(crate) fn fields_of_trigger_rows(text: &str) -> Option<Vec<(bool, String)>> {
    Parser::new(text).ok()?.fields_of_trigger_rows()
}

/// Returns true if a text in the catalog names a column.
pub(crate) fn names_column(text: &str, name: &str) -> bool {
    with_renamed(text, name, "#") != text
}

/// The columns among these that a text in the catalog names, in the order of their first use.
pub(crate) fn named_columns(text: &str, columns: &[&str]) -> Vec<usize> {
    Parser::new(text).map_or(Vec::new(), |parser| parser.named_columns(columns))
}

/// Returns true if a text in the catalog names a schema before a point, or a name in it in a string.
pub(crate) fn names_schema(text: &str, schema: &str) -> bool {
    Parser::new(text).is_ok_and(|parser| parser.names_schema(schema))
}

/// The names in a query that may be relations': those after FROM, JOIN and commas. Names of common table expressions
/// and of columns may be among them.
pub(crate) fn relation_names(text: &str) -> Vec<syntax::ObjectName> {
    Parser::new(text).map_or(Vec::new(), Parser::relation_names)
}

/// The names of relations, types and functions in a text of the catalog, a statement or an expression, and their
/// positions.
pub(crate) fn references(text: &str) -> Vec<(Reference, syntax::ObjectName, Range<usize>)> {
    let read = |is_statement: bool| -> Result<_> {
        let mut parser = Parser::with_references(text)?;
        if is_statement {
            parser.data_statement()?;
        } else {
            parser.expression()?;
        }
        parser.end_of_text()?;
        Ok(parser.references())
    };
    read(true).or_else(|_| read(false)).unwrap_or_default()
}

/// A change of a text: its start, its end, and the replacement.
pub(crate) type TextEdit = (usize, usize, String);

/// A catalog text in which names of relations, types and functions are replaced by what `replacement` gives.
pub(crate) fn with_names(
    text: &str,
    replacement: impl FnMut(Reference, &syntax::ObjectName) -> Option<String>,
) -> String {
    with_names_and_edits(text, &[], replacement)
}

/// Like [`with_names`], with other changes, too.
pub(crate) fn with_names_and_edits(
    text: &str,
    others: &[TextEdit],
    mut replacement: impl FnMut(Reference, &syntax::ObjectName) -> Option<String>,
) -> String {
    let mut found = references(text);
    found.sort_unstable_by_key(|(_, _, place)| place.start);
    let named = found
        .into_iter()
        .filter_map(|(kind, name, place)| Some((place.start, place.end, replacement(kind, &name)?)));
    let mut edits: Vec<TextEdit> = named.chain(others.iter().cloned()).collect();
    edits.sort_by_key(|(start, end, _)| (*start, *end));
    let (mut replaced, mut done) = (String::new(), 0);
    for (start, end, edit) in edits {
        if start < done {
            continue;
        }
        replaced += &text[done..start];
        replaced += &edit;
        done = end;
    }
    replaced + &text[done..]
}

/// A catalog text with changes, which do not overlap.
pub(crate) fn with_edits(text: &str, mut edits: Vec<TextEdit>) -> String {
    edits.sort_by_key(|(start, end, _)| (*start, *end));
    let (mut replaced, mut done) = (String::new(), 0);
    for (start, end, edit) in edits {
        replaced += &text[done..start];
        replaced += &edit;
        done = end;
    }
    replaced + &text[done..]
}

/// End of the token of a text that begins at a place.
pub(crate) fn end_of_token(text: &str, at: syntax::At) -> usize {
    Parser::new(text).map_or(at as usize, |parser| parser.end_of_token(at as usize))
}

/// End of the parentheses after the token that begins at a place.
pub(crate) fn end_of_parentheses(text: &str, at: syntax::At) -> usize {
    Parser::new(text).map_or(at as usize, |parser| parser.end_of_parentheses(at as usize))
}

/// End of the item of a target list that begins at a place.
pub(crate) fn end_of_item(text: &str, at: syntax::At) -> usize {
    Parser::new(text).map_or(at as usize, |parser| parser.end_of_item(at as usize))
}

/// The functions that a catalog text calls: the schema, if it is given, and the name.
pub(crate) fn called_functions(text: &str) -> Vec<(Option<String>, String)> {
    Parser::new(text).map_or(Vec::new(), |parser| parser.called_functions())
}

/// An expression with the sequences whose values it uses named by their oids, as `oid` gives them.
pub(crate) fn with_sequences(text: &str, oid: impl FnMut(&str) -> Option<u32>) -> String {
    Parser::new(text).map_or(text.to_string(), |parser| parser.with_sequences(oid))
}

/// The string literals of a text, and their positions.
pub(crate) fn string_literals(text: &str) -> Vec<(syntax::At, String)> {
    Parser::new(text).map_or(Vec::new(), |parser| parser.string_literals())
}

/// A text with string literals, by their numbers in it, replaced.
pub(crate) fn with_literals(text: &str, replaced: &[(usize, syntax::At, String)]) -> String {
    Parser::new(text).map_or(text.to_string(), |parser| parser.with_literals(replaced))
}

/// The parts to write out in a query: stars and names, which begin at these positions, and natural joins.
pub(crate) type WrittenOut<'w> =
    (&'w [(syntax::At, String)], &'w [(syntax::At, String)], &'w [syntax::NaturalJoin]);

/// A query whose stars are replaced by columns, with names and natural joins written out, and with other changes.
pub(crate) fn with_columns(text: &str, (items, names, joins): WrittenOut<'_>, casts: &[TextEdit]) -> String {
    Parser::new(text).map_or(text.to_string(), |parser| parser.with_columns(items, names, joins, casts))
}

/// A type's name, as `regtype` and `CAST` read it.
///
/// # Errors
/// Same errors as [`parse`].
pub(crate) fn parse_type(text: &str) -> Result<TypeName> {
    let mut parser = Parser::counted(text)?;
    let ty = parser.type_name()?;
    parser.end_of_text()?;
    Ok(ty)
}
