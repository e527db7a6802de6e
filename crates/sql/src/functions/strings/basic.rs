//! Length, case, parts, padding and trimming of texts.

use hashbrown::{HashMap, HashSet};

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::interrupt::{pieces, step};
use crate::types::Value;

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("length(text) int4", |_, v| Ok(count(v[0].str()))),
    scalar("length(bpchar) int4", |_, v| Ok(count(v[0].str().trim_end_matches(' ')))),
    scalar("char_length(text) int4", |_, v| Ok(count(v[0].str()))),
    scalar("char_length(bpchar) int4", |_, v| Ok(count(v[0].str().trim_end_matches(' ')))),
    scalar("character_length(text) int4", |_, v| Ok(count(v[0].str()))),
    scalar("character_length(bpchar) int4", |_, v| Ok(count(v[0].str().trim_end_matches(' ')))),
    scalar("octet_length(text) int4", |_, v| Ok(Value::Int4(v[0].str().len() as i32))),
    scalar("octet_length(bpchar) int4", |_, v| Ok(Value::Int4(v[0].str().len() as i32))),
    scalar("bit_length(text) int4", |_, v| Ok(Value::Int4(v[0].str().len() as i32 * 8))),
    scalar("lower(text) text", |_, v| mapped(v[0].str(), |c| Some(single(c.to_lowercase(), c)))),
    scalar("upper(text) text", |_, v| mapped(v[0].str(), |c| Some(single(c.to_uppercase(), c)))),
    scalar("initcap(text) text", |_, v| capitalized(v[0].str())),
    scalar("substr(text, int4) text", substring),
    scalar("substr(text, int4, int4) text", substring),
    scalar("substring(text, int4) text", substring),
    scalar("substring(text, int4, int4) text", substring),
    scalar("left(text, int4) text", |_, v| Ok(Value::text(left(v[0].str(), v[1].int4())))),
    scalar("right(text, int4) text", |_, v| Ok(Value::text(right(v[0].str(), v[1].int4())))),
    scalar("ltrim(text) text", |_, v| Ok(Value::text(v[0].str().trim_start_matches(' ')))),
    scalar("ltrim(text, text) text", |_, v| Ok(Value::text(v[0].str().trim_start_matches(among(&v[1]))))),
    scalar("rtrim(text) text", |_, v| Ok(Value::text(v[0].str().trim_end_matches(' ')))),
    scalar("rtrim(text, text) text", |_, v| Ok(Value::text(v[0].str().trim_end_matches(among(&v[1]))))),
    scalar("btrim(text) text", |_, v| Ok(Value::text(v[0].str().trim_matches(' ')))),
    scalar("btrim(text, text) text", |_, v| Ok(Value::text(v[0].str().trim_matches(among(&v[1]))))),
    scalar("lpad(text, int4) text", |c, v| pad(c, v, " ", true)),
    scalar("lpad(text, int4, text) text", |c, v| pad(c, v, v[2].str(), true)),
    scalar("rpad(text, int4) text", |c, v| pad(c, v, " ", false)),
    scalar("rpad(text, int4, text) text", |c, v| pad(c, v, v[2].str(), false)),
    scalar("reverse(text) text", |_, v| reversed(v[0].str())),
    scalar("repeat(text, int4) text", repeat),
    scalar("replace(text, text, text) text", replace),
    scalar("translate(text, text, text) text", translate),
    scalar("strpos(text, text) int4", position),
    scalar("position(text, text) int4", position),
    scalar("overlay(text, text, int4) text", overlay),
    scalar("overlay(text, text, int4, int4) text", overlay),
    scalar("split_part(text, text, int4) text", split_part),
    scalar("starts_with(text, text) bool", |_, v| Ok(Value::Bool(v[0].str().starts_with(v[1].str())))),
    scalar("ascii(text) int4", |_, v| Ok(Value::Int4(v[0].str().chars().next().map_or(0, |c| c as i32)))),
    scalar("chr(int4) text", chr),
    scalar("to_hex(int4) text", |_, v| Ok(Value::text(format!("{:x}", v[0].int4())))),
    scalar("to_hex(int8) text", |_, v| Ok(Value::text(format!("{:x}", v[0].int8())))),
    scalar("unistr(text) text", unistr),
    scalar("name(text) name", |_, v| Ok(Value::text(crate::types::text::truncated_name(v[0].str())))),
];

/// The table of operators.
pub(super) const OPERATORS: &[Definition] = &[
    scalar("^@(text, text) bool", |_, v| Ok(Value::Bool(v[0].str().starts_with(v[1].str())))),
    scalar("~<~(text, text) bool", |_, v| Ok(Value::Bool(v[0].str() < v[1].str()))),
    scalar("~<=~(text, text) bool", |_, v| Ok(Value::Bool(v[0].str() <= v[1].str()))),
    scalar("~>~(text, text) bool", |_, v| Ok(Value::Bool(v[0].str() > v[1].str()))),
    scalar("~>=~(text, text) bool", |_, v| Ok(Value::Bool(v[0].str() >= v[1].str()))),
];

/// The longest text that padding and repetition make, in bytes.
const LENGTH_MAX: usize = 1 << 30;

fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

fn count(text: &str) -> Value {
    Value::Int4(text.chars().count() as i32)
}

/// PostgreSQL maps one character to one character.
fn single(mut mapped: impl ExactSizeIterator<Item = char>, original: char) -> char {
    if mapped.len() == 1 { mapped.next().unwrap_or(original) } else { original }
}

/// The text with each character mapped, or left out.
fn mapped(text: &str, mut map: impl FnMut(char) -> Option<char>) -> Result<Value> {
    let mut made = String::with_capacity(text.len());
    for piece in pieces(text) {
        made.extend(piece?.chars().filter_map(&mut map));
    }
    Ok(Value::text(made))
}

fn capitalized(text: &str) -> Result<Value> {
    let mut is_inside = false;
    mapped(text, |character| {
        let was_inside = std::mem::replace(&mut is_inside, character.is_alphanumeric());
        Some(if was_inside {
            single(character.to_lowercase(), character)
        } else {
            single(character.to_uppercase(), character)
        })
    })
}

fn reversed(text: &str) -> Result<Value> {
    let mut made = String::with_capacity(text.len());
    for character in text.chars().rev() {
        step()?;
        made.push(character);
    }
    Ok(Value::text(made))
}

/// Minimum number of bytes for which a set of characters to trim is hashed.
const LONG_SET_BYTES: usize = 64;

/// The characters of a set to trim.
fn among(set: &Value) -> impl Fn(char) -> bool + '_ {
    let set = set.str();
    let hashed = (set.len() >= LONG_SET_BYTES).then(|| set.chars().collect::<HashSet<char>>());
    move |character| hashed.as_ref().map_or_else(|| set.contains(character), |it| it.contains(&character))
}

/// The part from the `from`-th character (from 1, may be before the text) with at most `length` characters.
pub(super) fn part(text: &str, from: i32, length: Option<i32>) -> Result<&str> {
    let end = match length {
        Some(length) if length < 0 => {
            return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
        }
        Some(length) => i64::from(from) + i64::from(length),
        None => i64::MAX,
    };
    let start = i64::from(from).max(1);
    if end <= start {
        return Ok("");
    }
    let byte_of = |character: i64| {
        let index = usize::try_from(character - 1).unwrap_or(usize::MAX);
        text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
    };
    let (from, to) = (byte_of(start), if end == i64::MAX { text.len() } else { byte_of(end) });
    Ok(&text[from..to])
}

fn substring(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    part(v[0].str(), v[1].int4(), v.get(2).map(Value::int4)).map(Value::text)
}

fn byte_after(text: &str, characters: usize) -> usize {
    text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
}

/// The first characters; all but the last ones where the number is negative.
fn left(text: &str, characters: i32) -> &str {
    let kept = if characters >= 0 {
        characters as usize
    } else {
        text.chars().count().saturating_sub(characters.unsigned_abs() as usize)
    };
    &text[..byte_after(text, kept)]
}

fn right(text: &str, characters: i32) -> &str {
    let dropped = if characters >= 0 {
        text.chars().count().saturating_sub(characters as usize)
    } else {
        characters.unsigned_abs() as usize
    };
    &text[byte_after(text, dropped)..]
}

fn pad(context: &mut FunctionContext<'_>, v: &[Value], fill: &str, is_left: bool) -> Result<Value> {
    let (text, length) = (v[0].str(), v[1].int4().max(0) as usize);
    if length > LENGTH_MAX / 4 {
        return Err(too_long());
    }
    let found = text.chars().count();
    if found >= length || fill.is_empty() {
        return Ok(Value::text(&text[..byte_after(text, length)]));
    }
    let longest = fill.chars().map(char::len_utf8).max().unwrap_or(1);
    context.environment.require_value(text.len() + (length - found) * longest)?;
    let mut filling = String::new();
    for character in fill.chars().cycle().take(length - found) {
        step()?;
        filling.push(character);
    }
    Ok(Value::text(if is_left { filling + text } else { text.to_string() + &filling }))
}

fn repeat(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (text, times) = (v[0].str(), v[1].int4().max(0) as usize);
    if text.len().checked_mul(times).is_none_or(|length| length > LENGTH_MAX) {
        return Err(too_long());
    }
    context.environment.require_value(text.len() * times)?;
    Ok(Value::text(text.repeat(times)))
}

fn replace(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (text, from, to) = (v[0].str(), v[1].str(), v[2].str());
    if from.is_empty() {
        return Ok(v[0].clone());
    }
    if to.len() > from.len() {
        let more = text.matches(from).count().saturating_mul(to.len() - from.len());
        context.environment.require_value(text.len().saturating_add(more))?;
    }
    let (mut made, mut copied) = (String::new(), 0);
    for (at, found) in text.match_indices(from) {
        step()?;
        made.push_str(&text[copied..at]);
        made.push_str(to);
        copied = at + found.len();
    }
    made.push_str(&text[copied..]);
    Ok(Value::text(made))
}

fn translate(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (from, to): (Vec<char>, Vec<char>) = (v[1].str().chars().collect(), v[2].str().chars().collect());
    let mut map: HashMap<char, Option<char>> = HashMap::with_capacity(from.len());
    for (at, character) in from.into_iter().enumerate() {
        map.entry(character).or_insert_with(|| to.get(at).copied());
    }
    mapped(v[0].str(), |character| map.get(&character).copied().unwrap_or(Some(character)))
}

fn position(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let text = v[0].str();
    let found = text.find(v[1].str());
    Ok(Value::Int4(found.map_or(0, |at| text[..at].chars().count() as i32 + 1)))
}

fn overlay(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (text, new, from) = (v[0].str(), v[1].str(), v[2].int4());
    let length = v.get(3).map_or_else(|| new.chars().count() as i32, Value::int4);
    if from <= 0 {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let rest = from
        .checked_add(length)
        .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))?;
    let (before, after) = (part(text, 1, Some(from - 1))?, part(text, rest, None)?);
    Ok(Value::text(format!("{before}{new}{after}")))
}

fn split_part(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (text, separator, number) = (v[0].str(), v[1].str(), v[2].int4());
    if number == 0 {
        let message = "field position must not be zero";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let at = number.unsigned_abs() as usize - 1;
    if separator.is_empty() || text.is_empty() {
        return Ok(if at == 0 { v[0].clone() } else { Value::text("") });
    }
    let found = if number > 0 {
        nth(text.split(separator), at)?
    } else {
        let count = text.matches(separator).try_fold(1, |count, _| step().map(|()| count + 1))?;
        match usize::checked_sub(count, at + 1) {
            Some(at) => nth(text.split(separator), at)?,
            None => None,
        }
    };
    Ok(Value::text(found.unwrap_or("")))
}

/// The part of this number.
fn nth<'t>(parts: impl Iterator<Item = &'t str>, number: usize) -> Result<Option<&'t str>> {
    for (at, part) in parts.enumerate() {
        if at == number {
            return Ok(Some(part));
        }
        step()?;
    }
    Ok(None)
}

fn chr(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let fail = |message: &str| Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    match v[0].int4() {
        0 => fail("null character not permitted"),
        code if code < 0 => {
            let message = "character number must be positive";
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
        code => match char::from_u32(code as u32) {
            Some(character) => Ok(Value::text(character.to_string())),
            None => fail("requested character not valid for encoding"),
        },
    }
}

/// `\\XXXX`, `\\+XXXXXX`, `\\uXXXX` and `\\UXXXXXXXX` as the characters that they name.
fn unistr(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let fail = || {
        let error = SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape");
        error.with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
    };
    let mut rest = v[0].str();
    let mut units: Vec<u16> = Vec::new();
    while let Some(at) = rest.find('\\') {
        units.extend(rest[..at].encode_utf16());
        rest = &rest[at + 1..];
        let (skip, digits) = match rest.chars().next() {
            Some('\\') => {
                units.push(u16::from(b'\\'));
                rest = &rest[1..];
                continue;
            }
            Some('+') => (1, 6),
            Some('u') => (1, 4),
            Some('U') => (1, 8),
            _ => (0, 4),
        };
        let code = rest.get(skip..skip + digits).ok_or_else(fail)?;
        let code = u32::from_str_radix(code, 16).map_err(|_| fail())?;
        match char::from_u32(code) {
            Some('\0') | None if !(0xd800..0xe000).contains(&code) => return Err(fail()),
            Some(character) => units.extend(character.encode_utf16(&mut [0; 2]).iter()),
            None => units.push(code as u16),
        }
        rest = &rest[skip + digits..];
    }
    units.extend(rest.encode_utf16());
    let text = String::from_utf16(&units);
    text.map(Value::text).map_err(|_| SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair"))
}
