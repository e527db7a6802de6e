//! The columns, tables and functions that a stored expression names, and its text with other names in their place.

use super::Parser;
use crate::parse::TextEdit;
use crate::parse::lexer::{Token, TokenKind};
use crate::parse::queries::AFTER_SELECT_LIST;
use crate::parse::syntax::{At, NaturalJoin};

impl<'t> Parser<'t> {
    /// The text with the calls `nextval('name')` of the sequences that `oid` knows naming their oids.
    pub fn with_sequences(&self, mut oid: impl FnMut(&str) -> Option<u32>) -> String {
        let (mut text, mut end) = (String::new(), 0);
        for (position, token) in self.tokens.iter().enumerate() {
            let kind = |ahead: usize| self.tokens.get(position + ahead).map(|token| &token.kind);
            let is_word = |ahead, word| matches!(kind(ahead), Some(TokenKind::Word(found)) if found == word);
            let is_mark = |ahead, mark| kind(ahead) == Some(&TokenKind::Mark(mark));
            let Some(TokenKind::Text(name)) = kind(2) else { continue };
            let last = match is_mark(3, "::") && is_word(4, "regclass") {
                true => 5,
                false => 3,
            };
            if is_word(0, "nextval")
                && is_mark(1, "(")
                && is_mark(last, ")")
                && let Some(oid) = oid(name)
            {
                text += &self.text[end..token.start as usize];
                text += &format!("nextval({oid}::oid::regclass)");
                end = self.tokens[position + last].end as usize;
            }
        }
        text + &self.text[end..]
    }

    /// The name that a token is, unless it is a function's, a field's that EXTRACT reads, or a part of a type's.
    fn name_of_column(&self, position: usize) -> Option<&str> {
        let name = match &self.tokens[position].kind {
            TokenKind::Word(word) => word,
            TokenKind::Quoted(name) => name.as_str(),
            _ => return None,
        };
        let before = |count: usize| position.checked_sub(count).map(|at| &self.tokens[at].kind);
        let word = |count: usize| match before(count) {
            Some(TokenKind::Word(word)) => word.as_ref(),
            _ => "",
        };
        let next = &self.tokens[position + 1].kind;
        let is_called = *next == TokenKind::Mark("(");
        let is_field = before(1) == Some(&TokenKind::Mark("(")) && word(2) == "extract";
        let is_type = |from: usize| before(from) == Some(&TokenKind::Mark("::")) || word(from) == "as";
        let is_type = is_type(1) || before(1) == Some(&TokenKind::Mark(".")) && is_type(3);
        let is_qualifier = *next == TokenKind::Mark(".");
        let is_literals_type = matches!(next, TokenKind::Text(_));
        let is_rest_of_type = matches!(
            (word(1), name),
            ("double", "precision")
                | ("bit" | "char" | "character", "varying")
                | ("at" | "with" | "without", "time")
                | ("time", "zone")
        );
        (!is_called && !is_qualifier && !is_field && !is_type && !is_literals_type && !is_rest_of_type)
            .then_some(name)
    }

    /// The text with every name that is `from`, and no function's or type's, replaced.
    pub fn with_renamed(&self, from: &str, to: &str) -> String {
        let mut text = String::new();
        let mut end = 0;
        for (position, token) in self.tokens.iter().enumerate() {
            if self.name_of_column(position) == Some(from) {
                text += &self.text[end..token.start as usize];
                text += to;
                end = token.end as usize;
            }
        }
        text + &self.text[end..]
    }

    /// The text with the name of its table, before points, replaced by another.
    pub fn with_renamed_table(&self, from: &str, to: &str) -> String {
        let (mut text, mut end) = (String::new(), 0);
        for position in (0..self.tokens.len()).filter(|&at| self.is_table_qualifier(at, from)) {
            let token = &self.tokens[position];
            text += &self.text[end..token.start as usize];
            text += to;
            end = token.end as usize;
        }
        text + &self.text[end..]
    }

    /// Returns true if a token is this name before a column's: not before a function's, a type's or a table's.
    fn is_table_qualifier(&self, position: usize, name: &str) -> bool {
        let kind = |at: usize| self.tokens.get(at).map(|token| &token.kind);
        let before = position.checked_sub(1).and_then(kind);
        let is_type = match before {
            Some(TokenKind::Mark(mark)) => *mark == "::",
            Some(TokenKind::Word(word)) => word == "as",
            _ => false,
        };
        self.is_named(position, name)
            && !is_type
            && kind(position + 1) == Some(&TokenKind::Mark("."))
            && !matches!(kind(position + 3), Some(TokenKind::Mark("(" | ".") | TokenKind::Text(_)))
    }

    fn is_named(&self, position: usize, name: &str) -> bool {
        match &self.tokens[position].kind {
            TokenKind::Word(word) => word == name,
            TokenKind::Quoted(quoted) => quoted == name,
            _ => false,
        }
    }

    /// End of the token that begins at a place; the place itself, if none does.
    pub fn end_of_token(&self, at: usize) -> usize {
        self.tokens.iter().find(|token| token.start as usize == at).map_or(at, |token| token.end as usize)
    }

    /// End of the parentheses after the token that begins at a place; the token's end, if there are none.
    pub fn end_of_parentheses(&self, at: usize) -> usize {
        let Some(first) = self.tokens.iter().position(|token| token.start as usize == at) else { return at };
        let (mut depth, mut end) = (0, self.tokens[first].end);
        for token in &self.tokens[first + 1..] {
            match token.kind {
                TokenKind::Mark("(") => depth += 1,
                TokenKind::Mark(")") => depth -= 1,
                _ if depth == 0 => break,
                _ => {}
            }
            end = token.end;
            if depth == 0 {
                break;
            }
        }
        end as usize
    }

    /// End of the item of a target list that begins at a place.
    pub fn end_of_item(&self, at: usize) -> usize {
        let ends = |word: &str| AFTER_SELECT_LIST.contains(&word) || word == "returning";
        let (mut depth, mut end) = (0, at);
        for token in self.tokens.iter().skip_while(|token| (token.start as usize) < at) {
            match &token.kind {
                TokenKind::Mark("(" | "[") => depth += 1,
                TokenKind::Mark(")" | "]") if depth == 0 => break,
                TokenKind::Mark(")" | "]") => depth -= 1,
                TokenKind::Mark("," | ";") | TokenKind::End if depth == 0 => break,
                TokenKind::Word(word) if depth == 0 && ends(word) => break,
                _ => {}
            }
            end = token.end as usize;
        }
        end
    }

    /// Returns true if a trigger's condition names one of its rows: `old`, but not `new.old`.
    pub fn names_row(&self, row: &str) -> bool {
        let is_mark = |at: usize, mark| self.tokens[at].kind == TokenKind::Mark(mark);
        (0..self.tokens.len())
            .any(|at| self.is_named(at, row) && (at == 0 || !is_mark(at - 1, ".")) && !is_mark(at + 1, "("))
    }

    /// The fields of `old` (`true`) and `new` that a text names; `None` if it uses one of them in another way than by its fields, or
    /// returning it.
    pub fn fields_of_trigger_rows(&self) -> Option<Vec<(bool, String)>> {
        let mut fields = Vec::new();
        for at in 0..self.tokens.len() {
            let is_old = self.is_named(at, "old");
            if !is_old && !self.is_named(at, "new") {
                continue;
            }
            let is_mark =
                |at: usize, mark| self.tokens.get(at).is_some_and(|it| it.kind == TokenKind::Mark(mark));
            if at > 0 && self.is_named(at - 1, "return") && is_mark(at + 1, ";") {
                continue;
            }
            let name = match self.tokens.get(at + 2).map(|token| &token.kind) {
                Some(TokenKind::Word(word)) => word.to_string(),
                Some(TokenKind::Quoted(name)) => name.clone(),
                _ => return None,
            };
            if !is_mark(at + 1, ".") {
                return None;
            }
            fields.push((is_old, name));
        }
        Some(fields)
    }

    /// The text of a query with the items that begin at these positions, which end with a star or are `TABLE name`, and the
    /// names there, replaced by columns, and with these natural joins written with their conditions.
    pub fn with_columns(
        &self,
        items: &[(At, String)],
        names: &[(At, String)],
        joins: &[NaturalJoin],
        casts: &[TextEdit],
    ) -> String {
        let token_at = |at: At| self.tokens.partition_point(|token| token.start < at);
        let mut edits = Vec::new();
        for (at, columns) in items {
            let first = token_at(*at);
            let is_star = |token: &Token<'_>| token.kind == TokenKind::Operator("*");
            let is_table = matches!(&self.tokens[first].kind, TokenKind::Word(word) if word == "table");
            let (last, columns) = match is_table {
                true => (first, format!("SELECT {columns} FROM")),
                false => {
                    let last = self.tokens[first..].iter().position(is_star);
                    (last.map_or(first, |further| first + further), columns.clone())
                }
            };
            edits.push((self.tokens[first].start, self.tokens[last].end, columns));
        }
        for (at, name) in names {
            let token = &self.tokens[token_at(*at)];
            edits.push((token.start, token.end, name.clone()));
        }
        for join in joins {
            let natural = token_at(join.at);
            edits.push((self.tokens[natural].start, self.tokens[natural + 1].start, String::new()));
            // A keyword may follow a quoted name without a blank.
            let is_followed = self.text[join.end as usize..].starts_with(char::is_alphabetic);
            let blank = if is_followed { " " } else { "" };
            edits.push((join.end, join.end, format!(" {}{blank}", join.condition)));
        }
        edits.extend(casts.iter().map(|(from, to, text)| (*from as At, *to as At, text.clone())));
        edits.sort_by_key(|(from, to, _)| (*from, *to));
        let (mut text, mut end) = (String::new(), 0);
        for (from, to, replacement) in edits {
            text += &self.text[end..from as usize];
            text += &replacement;
            end = to as usize;
        }
        text + &self.text[end..]
    }

    /// The string literals of the text, and their positions.
    pub fn string_literals(&self) -> Vec<(At, String)> {
        let text = |token: &Token<'_>| match &token.kind {
            TokenKind::Text(text) => Some((token.start, text.to_string())),
            _ => None,
        };
        self.tokens.iter().filter_map(text).collect()
    }

    /// The text with string literals, by their numbers in it, replaced.
    pub fn with_literals(&self, replaced: &[(usize, At, String)]) -> String {
        let literals = self.tokens.iter().filter(|token| matches!(token.kind, TokenKind::Text(_)));
        let (mut text, mut end) = (String::new(), 0);
        for (number, token) in literals.enumerate() {
            if let Some((.., literal)) = replaced.iter().find(|(other, ..)| *other == number) {
                text += &self.text[end..token.start as usize];
                text += literal;
                end = token.end as usize;
            }
        }
        text + &self.text[end..]
    }

    /// The columns among these that the text names, in the order of their first use.
    pub fn named_columns(&self, columns: &[&str]) -> Vec<usize> {
        let mut found = Vec::new();
        let names = (0..self.tokens.len()).filter_map(|position| self.name_of_column(position));
        for at in names.filter_map(|name| columns.iter().position(|column| *column == name)) {
            if !found.contains(&at) {
                found.push(at);
            }
        }
        found
    }

    /// Returns true if a point follows this name anywhere, in a string, too.
    pub fn names_schema(&self, schema: &str) -> bool {
        self.tokens.windows(2).any(|pair| match &pair[0].kind {
            TokenKind::Word(word) => word == schema && pair[1].kind == TokenKind::Mark("."),
            TokenKind::Quoted(name) => name == schema && pair[1].kind == TokenKind::Mark("."),
            TokenKind::Text(text) => text.strip_prefix(schema).is_some_and(|rest| rest.starts_with('.')),
            _ => false,
        })
    }

    /// The names that parentheses follow, with the names of the schemas before them.
    pub fn called_functions(&self) -> Vec<(Option<String>, String)> {
        let name_at = |at: usize| match &self.tokens.get(at)?.kind {
            TokenKind::Word(word) => Some(word.to_string()),
            TokenKind::Quoted(name) => Some(name.clone()),
            _ => None,
        };
        let is_mark = |at: usize, mark| self.tokens[at].kind == TokenKind::Mark(mark);
        let calls = (1..self.tokens.len()).filter(|&at| is_mark(at, "("));
        let names = calls.filter_map(|at| {
            let is_qualified = at >= 3 && is_mark(at - 2, ".");
            Some((if is_qualified { name_at(at - 3) } else { None }, name_at(at - 1)?))
        });
        names.collect()
    }
}
