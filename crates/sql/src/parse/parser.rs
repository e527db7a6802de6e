//! The parser's cursor over the tokens: looking ahead, accepting, expecting, and its errors.

use std::ops::Range;

use crate::error::{Result, SqlError, SqlState};
use crate::parse::keywords;
use crate::parse::lexer::{Token, TokenKind, counted_tokens, tokens};
use crate::parse::syntax::{At, Expr, ExprKind, Name, NaturalJoin, ObjectName, OperatorName};
use crate::parse::{HEIGHT_MAX, NESTING_MAX};

/// A position in characters from 1, as clients receive it, of a byte offset.
pub(crate) fn character_position(text: &str, at: At) -> u32 {
    let bytes = text.as_bytes().get(..at as usize).unwrap_or(text.as_bytes());
    bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u32 + 1
}

/// A parser in the midst of a text.
pub(crate) struct Parser<'t> {
    pub text: &'t str,
    tokens: Vec<Token<'t>>,
    at: usize,
    nesting: u32,
    /// The highest number of a parameter in the statement so far.
    pub parameters: u32,
    /// The names of relations, types and functions so far and where they stand, if they are asked for.
    references: Option<Vec<(Reference, At)>>,
}

/// What a name in a query or an expression refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A relation, or a common table expression.
    Relation,
    Type,
    /// A function that is called.
    Function,
    /// A common table expression where it is defined.
    Cte,
}

fn check_length(text: &str) -> Result<()> {
    if text.len() < u32::MAX as usize {
        return Ok(());
    }
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the text is longer than 4 GB"))
}

impl<'t> Parser<'t> {
    /// A parser of a text that the catalog keeps. Nothing but the text decides whether it succeeds: what asks which names stand
    /// in a definition gets the same answer however much memory other statements take.
    pub fn new(text: &'t str) -> Result<Parser<'t>> {
        check_length(text)?;
        Ok(Parser { text, tokens: tokens(text)?, at: 0, nesting: 0, parameters: 0, references: None })
    }

    /// A parser of a client's text or of a routine's body, whose tokens count among the memory of statements.
    ///
    /// # Errors
    /// 53200 besides those of [`new`](Self::new).
    pub fn counted(text: &'t str) -> Result<Parser<'t>> {
        check_length(text)?;
        Ok(Parser { text, tokens: counted_tokens(text)?, at: 0, nesting: 0, parameters: 0, references: None })
    }

    /// A parser that notes what names refer to.
    pub fn with_references(text: &'t str) -> Result<Parser<'t>> {
        Ok(Parser { references: Some(Vec::new()), ..Parser::new(text)? })
    }

    /// Notes that the name at the current token, if it is a name, refers to this.
    pub fn refer(&mut self, reference: Reference) {
        self.refer_at(reference, self.position());
    }

    /// The same for a name that begins at a position.
    pub fn refer_at(&mut self, reference: Reference, at: At) {
        if let Some(references) = &mut self.references {
            references.push((reference, at));
        }
    }

    /// The names that refer to relations, types and functions, with the kinds and the bytes at which they begin and end.
    pub fn references(self) -> Vec<(Reference, ObjectName, Range<usize>)> {
        let Parser { text, tokens, references, .. } = self;
        let mut parser = Parser { text, tokens, at: 0, nesting: 0, parameters: 0, references: None };
        let mut found = Vec::new();
        for (reference, at) in references.unwrap_or_default() {
            parser.at = parser.tokens.partition_point(|token| token.start < at);
            let Ok(name) = parser.object_name() else { continue };
            found.push((reference, name, at as usize..parser.last_end() as usize));
        }
        found
    }

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

    /// The token `ahead` of the current one.
    pub fn peek(&self, ahead: usize) -> &TokenKind<'t> {
        &self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].kind
    }

    /// Where the current token stands.
    pub fn position(&self) -> At {
        self.tokens[self.at].start
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

    /// Whether a token is this name before a column's: not before a function's, a type's or a table's.
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

    /// Whether a trigger's condition names one of its rows: `old`, but not `new.old`.
    pub fn names_row(&self, row: &str) -> bool {
        let is_mark = |at: usize, mark| self.tokens[at].kind == TokenKind::Mark(mark);
        (0..self.tokens.len())
            .any(|at| self.is_named(at, row) && (at == 0 || !is_mark(at - 1, ".")) && !is_mark(at + 1, "("))
    }

    /// The text of a query with the items that begin at these positions, which end with a star or are `TABLE name`, and the
    /// names there, replaced by columns, and with these natural joins written with their conditions.
    pub fn with_columns(
        &self,
        items: &[(At, String)],
        names: &[(At, String)],
        joins: &[NaturalJoin],
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
        edits.sort_unstable();
        let (mut text, mut end) = (String::new(), 0);
        for (from, to, replacement) in edits {
            text += &self.text[end..from as usize];
            text += &replacement;
            end = to as usize;
        }
        text + &self.text[end..]
    }

    /// Which of these columns the text names, in the order in which they come in it.
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

    /// Whether a point follows this name anywhere, in a string, too.
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

    /// Where the token before the current one ended.
    pub fn last_end(&self) -> At {
        self.at.checked_sub(1).map_or(0, |last| self.tokens[last].end)
    }

    /// The text from a position to the end of the token before the current one.
    pub fn text_since(&self, start: At) -> &'t str {
        &self.text[start as usize..(self.last_end() as usize).max(start as usize)]
    }

    pub fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// The place, to which [`Parser::rewind`] can go back.
    pub fn mark(&self) -> usize {
        self.at
    }

    pub fn rewind(&mut self, mark: usize) {
        self.at = mark;
        let at = self.position();
        if let Some(references) = &mut self.references {
            references.retain(|(_, referred)| *referred < at);
        }
    }

    pub fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek(ahead), TokenKind::Word(found) if found == word)
    }

    pub fn is_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(ahead, word)| self.is_word(ahead, word))
    }

    pub fn is_one_of(&self, words: &[&str]) -> bool {
        matches!(self.peek(0), TokenKind::Word(found) if words.contains(&found.as_ref()))
    }

    pub fn is_mark(&self, ahead: usize, mark: &str) -> bool {
        matches!(self.peek(ahead), TokenKind::Mark(found) if *found == mark)
    }

    pub fn is_operator(&self, ahead: usize, operator: &str) -> bool {
        matches!(self.peek(ahead), TokenKind::Operator(found) if *found == operator)
    }

    pub fn is_end(&self) -> bool {
        matches!(self.peek(0), TokenKind::End)
    }

    /// Passes over the keyword if it is there.
    pub fn accept(&mut self, word: &str) -> bool {
        let found = self.is_word(0, word);
        if found {
            self.advance();
        }
        found
    }

    /// Passes over these keywords if all are there.
    pub fn accept_words(&mut self, words: &[&str]) -> bool {
        let found = self.is_words(words);
        if found {
            self.at += words.len();
        }
        found
    }

    pub fn accept_mark(&mut self, mark: &str) -> bool {
        let found = self.is_mark(0, mark);
        if found {
            self.advance();
        }
        found
    }

    pub fn accept_operator(&mut self, operator: &str) -> bool {
        let found = self.is_operator(0, operator);
        if found {
            self.advance();
        }
        found
    }

    pub fn expect(&mut self, word: &str) -> Result<()> {
        if self.accept(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub fn expect_words(&mut self, words: &[&str]) -> Result<()> {
        words.iter().try_for_each(|word| self.expect(word))
    }

    pub fn expect_mark(&mut self, mark: &str) -> Result<()> {
        if self.accept_mark(mark) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub fn expect_operator(&mut self, operator: &str) -> Result<()> {
        if self.accept_operator(operator) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub fn end_of_text(&self) -> Result<()> {
        if self.is_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// `syntax error at or near` the current token.
    pub fn unexpected(&self) -> SqlError {
        let token = &self.tokens[self.at];
        let message = match token.kind {
            TokenKind::End => "syntax error at end of input".to_string(),
            _ => {
                let near = &self.text[token.start as usize..token.end as usize];
                format!("syntax error at or near \"{near}\"")
            }
        };
        self.error(token.start, SqlState::SYNTAX_ERROR, message)
    }

    pub fn error(&self, at: At, state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError::new(state, message).at(character_position(self.text, at))
    }

    /// Runs a rule one level deeper.
    pub fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.nesting >= NESTING_MAX {
            return Err(self.too_deep());
        }
        self.nesting += 1;
        let result = crate::stack::grow(|| rule(self));
        self.nesting -= 1;
        result
    }

    pub fn too_deep(&self) -> SqlError {
        self.error(self.position(), SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
            .with_hint(format!("Statements nest at most {NESTING_MAX} levels deep; split the statement."))
    }

    /// An expression over others, one level higher than the highest of them.
    pub fn above(&self, kind: ExprKind, at: At, height: u32) -> Result<Expr> {
        if height >= HEIGHT_MAX {
            return Err(self.too_deep());
        }
        Ok(Expr { kind, at, height: height + 1 })
    }

    /// A list with commas, of at least one item.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept_mark(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A list with commas in parentheses.
    pub fn in_parentheses<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_mark("(")?;
        let items = self.list(item)?;
        self.expect_mark(")")?;
        Ok(items)
    }

    fn name_if(&mut self, allowed: impl Fn(&str) -> bool) -> Option<Name> {
        let text = match self.peek(0) {
            TokenKind::Word(word) if allowed(word) => word.to_string(),
            TokenKind::Quoted(name) => name.clone(),
            _ => return None,
        };
        let at = self.position();
        self.advance();
        Some(Name { text: truncated(text), at })
    }

    /// The name of a column or a table.
    pub fn name(&mut self) -> Result<Name> {
        self.accept_name().ok_or_else(|| self.unexpected())
    }

    pub fn accept_name(&mut self) -> Option<Name> {
        self.name_if(keywords::may_name_column)
    }

    /// Any word as a name: behind AS and behind a point.
    pub fn label(&mut self) -> Result<Name> {
        self.name_if(|_| true).ok_or_else(|| self.unexpected())
    }

    /// A name that may stand behind an expression without AS.
    pub fn bare_label(&mut self) -> Option<Name> {
        self.name_if(keywords::may_be_bare_alias)
    }

    /// The name of a function or a type.
    pub fn function_name(&mut self) -> Option<Name> {
        self.name_if(keywords::may_name_function)
    }

    /// A name that may be qualified.
    pub fn object_name(&mut self) -> Result<ObjectName> {
        let mut parts = vec![self.name()?];
        while self.accept_mark(".") {
            parts.push(self.label()?);
        }
        if parts.len() > 3 {
            let message = format!(
                "improper qualified name (too many dotted names): {}",
                ObjectName { parts: parts.clone() }
            );
            return Err(self.error(parts[0].at, SqlState::SYNTAX_ERROR, message));
        }
        Ok(ObjectName { parts })
    }

    pub fn names_in_parentheses(&mut self) -> Result<Vec<Name>> {
        self.in_parentheses(Self::name)
    }

    /// A string literal.
    pub fn string(&mut self) -> Result<String> {
        match self.peek(0) {
            TokenKind::Text(text) => {
                let text = text.to_string();
                self.advance();
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// A whole number with a sign.
    pub fn signed_integer(&mut self) -> Result<i64> {
        let negative = if self.accept_operator("-") {
            true
        } else {
            self.accept_operator("+");
            false
        };
        let TokenKind::Integer(digits) = *self.peek(0) else { return Err(self.unexpected()) };
        let text = if negative { format!("-{digits}") } else { digits.to_string() };
        let value = text.parse().map_err(|_| {
            self.error(
                self.position(),
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("value \"{text}\" is out of range for type bigint"),
            )
        })?;
        self.advance();
        Ok(value)
    }

    /// `OPERATOR(schema.symbol)`, or a plain operator.
    pub fn operator_name(&mut self) -> Result<OperatorName> {
        if self.accept("operator") {
            self.expect_mark("(")?;
            let mut schema = None;
            while !matches!(self.peek(0), TokenKind::Operator(_)) {
                schema = Some(self.label()?.text);
                self.expect_mark(".")?;
            }
            let name = self.plain_operator()?;
            self.expect_mark(")")?;
            return Ok(OperatorName { schema, symbol: name });
        }
        Ok(OperatorName { schema: None, symbol: self.plain_operator()? })
    }

    fn plain_operator(&mut self) -> Result<String> {
        match *self.peek(0) {
            TokenKind::Operator(symbol) => {
                self.advance();
                Ok(symbol.to_string())
            }
            _ => Err(self.unexpected()),
        }
    }
}

/// Names keep their first 63 bytes, as in PostgreSQL.
fn truncated(mut name: String) -> String {
    if name.len() > 63 {
        let end = (0..=63).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
        name.truncate(end);
    }
    name
}
