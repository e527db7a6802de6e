//! Arrays as text: `{1,NULL,"a b"}`, `{{1,2},{3,4}}`, `[0:1]={5,6}`.

use super::{from_text, write_text};
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt::step;
use crate::types::array::{ArrayValue, DIMENSIONS_MAX, Dimension, check_size, too_many_dimensions};
use crate::types::{Environment, Modifier, Type, Value};

/// Appends an array as text.
pub(super) fn write_array(environment: &dyn Environment, array: &ArrayValue, out: &mut String) -> Result<()> {
    if array.dimensions.is_empty() {
        out.push_str("{}");
        return Ok(());
    }
    if array.dimensions.iter().any(|dimension| dimension.lower != 1) {
        for dimension in &array.dimensions {
            out.push_str(&format!("[{}:{}]", dimension.lower, dimension.upper()));
        }
        out.push('=');
    }
    write_level(environment, array, &array.dimensions, &array.values, out)
}

fn write_level(
    environment: &dyn Environment,
    array: &ArrayValue,
    dimensions: &[Dimension],
    values: &[Value],
    out: &mut String,
) -> Result<()> {
    let [first, inner @ ..] = dimensions else { return Ok(()) };
    out.push('{');
    let stride = values.len() / first.length as usize;
    for (at, part) in values.chunks(stride.max(1)).enumerate() {
        step()?;
        if at > 0 {
            out.push(',');
        }
        if inner.is_empty() {
            write_element(environment, array.element, &part[0], out)?;
        } else {
            write_level(environment, array, inner, part, out)?;
        }
    }
    out.push('}');
    Ok(())
}

fn write_element(environment: &dyn Environment, kind: Type, value: &Value, out: &mut String) -> Result<()> {
    if value.is_null() {
        out.push_str("NULL");
        return Ok(());
    }
    let mut text = String::new();
    write_text(environment, kind, value, &mut text)?;
    let is_special =
        |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_ascii_whitespace() || c == '\x0b';
    if !text.is_empty() && !text.contains(is_special) && !text.eq_ignore_ascii_case("null") {
        out.push_str(&text);
        return Ok(());
    }
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
    Ok(())
}

fn malformed(text: &str, detail: &str) -> SqlError {
    let message = format!("malformed array literal: \"{text}\"");
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
}

/// A text as an array.
pub(super) fn parse_array(
    environment: &dyn Environment,
    element: Type,
    modifier: Modifier,
    text: &str,
) -> Result<ArrayValue> {
    let trimmed = text.trim_matches(is_blank);
    let (given, body) = parse_bounds(text, trimmed)?;
    if !body.starts_with('{') {
        let detail = "Array value must start with \"{\" or dimension information.";
        return Err(malformed(text, detail));
    }
    let mut parser =
        Parser { environment, element, modifier, text, rest: body, lengths: Vec::new(), values: Vec::new() };
    parser.level(0)?;
    if !parser.rest.trim_matches(is_blank).is_empty() {
        return Err(malformed(text, "Junk after closing right brace."));
    }
    let Parser { lengths, values, .. } = parser;
    check_size(values.len())?;
    let lengths: Vec<i32> = lengths.into_iter().map(|length| length.unwrap_or(0)).collect();
    if values.is_empty() {
        if given.is_some() {
            return Err(malformed(text, "Specified array dimensions do not match array contents."));
        }
        return Ok(ArrayValue::empty(element));
    }
    let dimensions = match given {
        None => lengths.iter().map(|&length| Dimension { length, lower: 1 }).collect(),
        Some(given) => {
            if !given.iter().map(|it| it.length).eq(lengths.iter().copied()) {
                return Err(malformed(text, "Specified array dimensions do not match array contents."));
            }
            given
        }
    };
    Ok(ArrayValue { element, dimensions, values })
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

/// `[1:3][0:1]=` before the braces.
fn parse_bounds<'t>(text: &str, trimmed: &'t str) -> Result<(Option<Vec<Dimension>>, &'t str)> {
    if !trimmed.starts_with('[') {
        return Ok((None, trimmed));
    }
    let mut dimensions = Vec::new();
    let mut rest = trimmed;
    while let Some(inside) = rest.strip_prefix('[') {
        if dimensions.len() == DIMENSIONS_MAX {
            return Err(too_many_dimensions(dimensions.len() + 1));
        }
        let (bounds, after) =
            inside.split_once(']').ok_or_else(|| malformed(text, "Missing \"]\" after array dimensions."))?;
        let (lower, upper) = bounds.split_once(':').unwrap_or(("1", bounds));
        let number = |part: &str| {
            part.trim()
                .parse::<i32>()
                .map_err(|_| malformed(text, "\"[\" must introduce explicitly-specified array dimensions."))
        };
        let (lower, upper) = (number(lower)?, number(upper)?);
        if upper < lower {
            let message = "upper bound cannot be less than lower bound";
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        }
        let length = i64::from(upper) - i64::from(lower) + 1;
        check_size(length as usize)?;
        dimensions.push(Dimension { length: length as i32, lower });
        rest = after.trim_start_matches(is_blank);
    }
    let Some(body) = rest.strip_prefix('=') else {
        return Err(malformed(text, "Missing \"=\" after array dimensions."));
    };
    Ok((Some(dimensions), body.trim_start_matches(is_blank)))
}

struct Parser<'a> {
    environment: &'a dyn Environment,
    element: Type,
    modifier: Modifier,
    text: &'a str,
    rest: &'a str,
    /// The length of each dimension, once its first list has ended.
    lengths: Vec<Option<i32>>,
    values: Vec<Value>,
}

impl Parser<'_> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(is_blank);
    }

    fn malformed(&self, detail: &str) -> SqlError {
        malformed(self.text, detail)
    }

    /// One pair of braces and its contents.
    fn level(&mut self, depth: usize) -> Result<()> {
        if depth == DIMENSIONS_MAX {
            return Err(too_many_dimensions(depth + 1));
        }
        if depth == self.lengths.len() {
            self.lengths.push(None);
        }
        self.rest = &self.rest[1..];
        let mut count = 0;
        let mut has_lists = None;
        self.skip_blanks();
        if self.rest.starts_with('}') {
            // Only a whole array is empty, no list in one.
            if depth > 0 {
                return Err(self.malformed("Unexpected \"}\" character."));
            }
            self.rest = &self.rest[1..];
            return self.close(depth, 0);
        }
        loop {
            step()?;
            self.skip_blanks();
            let is_list = self.rest.starts_with('{');
            if *has_lists.get_or_insert(is_list) != is_list || !is_list && depth + 1 < self.lengths.len() {
                return Err(self.malformed(UNEQUAL));
            }
            if is_list {
                self.level(depth + 1)?;
            } else {
                let value = self.value()?;
                self.values.push(value);
            }
            count += 1;
            self.skip_blanks();
            match self.rest.chars().next() {
                Some(',') => self.rest = &self.rest[1..],
                Some('}') => {
                    self.rest = &self.rest[1..];
                    return self.close(depth, count);
                }
                _ => return Err(self.malformed("Unexpected end of input.")),
            }
        }
    }

    fn close(&mut self, depth: usize, count: i32) -> Result<()> {
        match self.lengths[depth] {
            None => self.lengths[depth] = Some(count),
            Some(known) if known == count => {}
            Some(_) => return Err(self.malformed(UNEQUAL)),
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Value> {
        let mut item = String::new();
        let (mut is_quoted, mut is_closed) = (false, false);
        let mut kept = 0;
        let mut characters = self.rest.char_indices();
        let mut end = None;
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => {
                    let (_, escaped) =
                        characters.next().ok_or_else(|| malformed(self.text, "Unexpected end of input."))?;
                    item.push(escaped);
                    kept = item.len();
                    is_quoted = true;
                }
                '"' => {
                    if !item.is_empty() || is_closed {
                        return Err(self.malformed("Unexpected array element."));
                    }
                    is_quoted = true;
                    loop {
                        match characters.next() {
                            Some((_, '"')) => break,
                            Some((_, '\\')) => item.extend(characters.next().map(|(_, escaped)| escaped)),
                            Some((_, plain)) => item.push(plain),
                            None => return Err(self.malformed("Unexpected end of input.")),
                        }
                    }
                    kept = item.len();
                    is_closed = true;
                }
                ',' | '}' => {
                    end = Some(at);
                    break;
                }
                '{' => return Err(self.malformed("Unexpected \"{\" character.")),
                blank if is_blank(blank) => item.push(blank),
                _ if is_closed => return Err(self.malformed("Unexpected array element.")),
                plain => {
                    item.push(plain);
                    kept = item.len();
                }
            }
        }
        let end = end.ok_or_else(|| malformed(self.text, "Unexpected end of input."))?;
        self.rest = &self.rest[end..];
        item.truncate(kept);
        if item.is_empty() && !is_quoted {
            return Err(self.malformed("Unexpected \",\" character."));
        }
        if !is_quoted && item.eq_ignore_ascii_case("null") {
            return Ok(Value::Null);
        }
        from_text(self.environment, self.element, self.modifier, &item)
    }
}

const UNEQUAL: &str = "Multidimensional arrays must have sub-arrays with matching dimensions.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PlainEnvironment;
    use crate::types::text::to_text;
    use proptest::prelude::*;

    fn round(element: Type, text: &str) -> String {
        let environment = PlainEnvironment::new(0);
        let kind = Type::array_of(element);
        match from_text(&environment, kind, Modifier::NONE, text) {
            Ok(value) => to_text(&environment, kind, &value).unwrap(),
            Err(error) => error.state().as_str().to_string(),
        }
    }

    #[test]
    fn arrays_are_read_and_printed() {
        for (text, expected) in [
            ("{1, 2 ,3}", "{1,2,3}"),
            ("{}", "{}"),
            ("{{1,2},{3,4}}", "{{1,2},{3,4}}"),
            ("[0:1]={5,6}", "[0:1]={5,6}"),
            ("{NULL,1}", "{NULL,1}"),
            ("{1,{2}}", "22P02"),
            ("{{1},{2,3}}", "22P02"),
            ("{1", "22P02"),
            ("1,2", "22P02"),
            ("{1,}", "22P02"),
            ("[1:3]={1,2}", "22P02"),
            ("{a}", "22P02"),
            ("{{}}", "22P02"),
            ("{{},{}}", "22P02"),
            ("{{1},{}}", "22P02"),
            ("{\"1\" 2}", "22P02"),
            ("{\"1\"\"2\"}", "22P02"),
        ] {
            assert_eq!(round(Type::Int4, text), expected, "{text}");
        }
        assert_eq!(round(Type::Text, r#"{a b,"x\"y","NULL",""}"#), r#"{"a b","x\"y","NULL",""}"#);
    }

    proptest! {
        #[test]
        fn texts_survive_in_arrays(items in prop::collection::vec(prop::option::of(".{0,8}"), 1..5)) {
            let environment = PlainEnvironment::new(0);
            let values: Vec<Value> = items.iter().map(|item| item.as_ref().map_or(Value::Null, Value::text)).collect();
            let value = Value::array(ArrayValue::list(Type::Text, values));
            let kind = Type::array_of(Type::Text);
            let text = to_text(&environment, kind, &value).unwrap();
            prop_assert_eq!(from_text(&environment, kind, Modifier::NONE, &text).unwrap(), value);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[{}\\[\\]:=,\"\\\\a1 ]{0,24}") {
            round(Type::Int4, &text);
        }
    }
}
