//! Functions over regular expressions: matching, replacing, splitting, counting.

use super::pattern::{Flags, Found, Program, compile};
use super::search::similar;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, Rows, RowsOf, scalar, set};
use crate::interrupt::check;
use crate::run::large_values::LARGE_BYTES;
use crate::types::array::ArrayValue;
use crate::types::jsonpath::RegexFlags;
use crate::types::{Type, Value};

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("substring(text, text) text", substring),
    scalar("substring(text, text, text) text", substring_similar),
    scalar("regexp_like(text, text) bool", regexp_like),
    scalar("regexp_like(text, text, text) bool", regexp_like),
    scalar("regexp_match(text, text) text[]", regexp_match),
    scalar("regexp_match(text, text, text) text[]", regexp_match),
    set("regexp_matches(text, text) setof text[]", regexp_matches),
    set("regexp_matches(text, text, text) setof text[]", regexp_matches),
    scalar("regexp_replace(text, text, text) text", |c, v| replace(c, v, 1, 1, Flags::default())),
    scalar("regexp_replace(text, text, text, text) text", regexp_replace_flags),
    scalar("regexp_replace(text, text, text, int4) text", regexp_replace_from),
    scalar("regexp_replace(text, text, text, int4, int4) text", regexp_replace_from),
    scalar("regexp_replace(text, text, text, int4, int4, text) text", regexp_replace_from),
    scalar("regexp_split_to_array(text, text) text[]", regexp_split_to_array),
    scalar("regexp_split_to_array(text, text, text) text[]", regexp_split_to_array),
    set("regexp_split_to_table(text, text) setof text", regexp_split_to_table),
    set("regexp_split_to_table(text, text, text) setof text", regexp_split_to_table),
    scalar("regexp_count(text, text) int4", regexp_count),
    scalar("regexp_count(text, text, int4) int4", regexp_count),
    scalar("regexp_count(text, text, int4, text) int4", regexp_count),
    scalar("regexp_instr(text, text) int4", regexp_instr),
    scalar("regexp_instr(text, text, int4) int4", regexp_instr),
    scalar("regexp_instr(text, text, int4, int4) int4", regexp_instr),
    scalar("regexp_instr(text, text, int4, int4, int4) int4", regexp_instr),
    scalar("regexp_instr(text, text, int4, int4, int4, text) int4", regexp_instr),
    scalar("regexp_instr(text, text, int4, int4, int4, text, int4) int4", regexp_instr),
    scalar("regexp_substr(text, text) text", regexp_substr),
    scalar("regexp_substr(text, text, int4) text", regexp_substr),
    scalar("regexp_substr(text, text, int4, int4) text", regexp_substr),
    scalar("regexp_substr(text, text, int4, int4, text) text", regexp_substr),
    scalar("regexp_substr(text, text, int4, int4, text, int4) text", regexp_substr),
];

/// The table of operators.
pub(super) const OPERATORS: &[Definition] = &[
    scalar("~(text, text) bool", |_, v| is_match(v, Flags::default(), false)),
    scalar("~(name, text) bool", |_, v| is_match(v, Flags::default(), false)),
    scalar("~(bpchar, text) bool", |_, v| is_match(v, Flags::default(), false)),
    scalar("!~(text, text) bool", |_, v| is_match(v, Flags::default(), true)),
    scalar("!~(name, text) bool", |_, v| is_match(v, Flags::default(), true)),
    scalar("!~(bpchar, text) bool", |_, v| is_match(v, Flags::default(), true)),
    scalar("~*(text, text) bool", |_, v| is_match(v, Flags::ignoring_case(), false)),
    scalar("~*(name, text) bool", |_, v| is_match(v, Flags::ignoring_case(), false)),
    scalar("~*(bpchar, text) bool", |_, v| is_match(v, Flags::ignoring_case(), false)),
    scalar("!~*(text, text) bool", |_, v| is_match(v, Flags::ignoring_case(), true)),
    scalar("!~*(name, text) bool", |_, v| is_match(v, Flags::ignoring_case(), true)),
    scalar("!~*(bpchar, text) bool", |_, v| is_match(v, Flags::ignoring_case(), true)),
];

fn is_match(v: &[Value], flags: Flags, is_negated: bool) -> Result<Value> {
    Ok(Value::Bool(compile(v[1].str(), flags)?.is_match(v[0].str())? != is_negated))
}

/// `like_regex` of jsonpath.
pub(in crate::functions) fn like_regex(text: &str, pattern: &str, flags: RegexFlags) -> Result<bool> {
    compile(pattern, Flags::of_path(flags))?.is_match(text)
}

/// The first group of the first match, or all of it.
fn first_part(program: &Program, text: &str) -> Result<Value> {
    let Some(found) = program.captures_at(text, 0)? else { return Ok(Value::Null) };
    let part = if found.len() > 1 { found.group(1) } else { found.group(0) };
    Ok(part.map_or(Value::Null, |(start, end)| Value::text(&text[start..end])))
}

fn substring(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    first_part(&*compile(v[1].str(), Flags::default())?, v[0].str())
}

fn substring_similar(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let pattern = similar(&v[1], &v[2])?;
    first_part(&*compile(pattern.str(), Flags::default())?, v[0].str())
}

/// The flags of a function that does not accept `g`.
fn single_flags(value: Option<&Value>, function: &str) -> Result<Flags> {
    let flags = value.map_or(Ok(Flags::default()), |value| Flags::parse(value.str()))?;
    if flags.is_global {
        let message = format!("{function}() does not support the \"global\" option");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(flags)
}

fn regexp_like(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    is_match(v, single_flags(v.get(2), "regexp_like")?, false)
}

/// The groups of a match, or all of it if there are none.
fn groups(found: &Found, text: &str) -> Value {
    let from = usize::from(found.len() > 1);
    let parts = found.groups().skip(from);
    let values =
        parts.map(|part| part.map_or(Value::Null, |(start, end)| Value::text(&text[start..end]))).collect();
    Value::array(ArrayValue::list(Type::Text, values))
}

fn regexp_match(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let flags = single_flags(v.get(2), "regexp_match").map_err(|error| match error.state() {
        SqlState::INVALID_PARAMETER_VALUE if error.message().contains("global") => {
            error.with_hint("Use the regexp_matches function instead.")
        }
        _ => error,
    })?;
    let found = compile(v[1].str(), flags)?.captures_at(v[0].str(), 0)?;
    Ok(found.map_or(Value::Null, |found| groups(&found, v[0].str())))
}

fn regexp_matches(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Box<dyn Rows>> {
    let flags = v.get(2).map_or(Ok(Flags::default()), |value| Flags::parse(value.str()))?;
    let regex = compile(v[1].str(), flags)?;
    let most = if flags.is_global { usize::MAX } else { 1 };
    let found = matches_from(&regex, v[0].str(), 0).take(most);
    let found = found.map(|found| found.map(|found| groups(&found, v[0].str())));
    let found = found.collect::<Result<Vec<Value>>>()?;
    Ok(Box::new(RowsOf(found.into_iter().map(Ok))))
}

fn regexp_replace_flags(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let flags = v[3].str();
    if let Some(digit) = flags.chars().next().filter(char::is_ascii_digit) {
        let message = format!("invalid regular expression option: \"{digit}\"");
        let hint = "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly.";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).with_hint(hint));
    }
    let flags = Flags::parse(flags)?;
    replace(context, v, 1, if flags.is_global { 0 } else { 1 }, flags)
}

fn regexp_replace_from(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let start = at_least(&v[3], 1, "start")?;
    let number = v.get(4).map_or(Ok(1), |value| at_least(value, 0, "n"))?;
    let flags = v.get(5).map_or(Ok(Flags::default()), |value| Flags::parse(value.str()))?;
    let number = if v.len() < 5 && flags.is_global { 0 } else { number };
    replace(context, v, start, number, flags)
}

fn at_least(value: &Value, least: i32, name: &str) -> Result<usize> {
    let found = value.int4();
    if found < least {
        let message = format!("invalid value for parameter \"{name}\": {found}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(found as usize)
}

/// The byte at which the `start`-th character begins.
fn start_of(text: &str, start: usize) -> usize {
    text.char_indices().nth(start - 1).map_or(text.len(), |(at, _)| at)
}

/// Replaces the `number`-th match from a character on, or all of them (0).
fn replace(
    context: &mut FunctionContext<'_>,
    v: &[Value],
    start: usize,
    number: usize,
    flags: Flags,
) -> Result<Value> {
    let (text, replacement) = (v[0].str(), v[2].str());
    let regex = compile(v[1].str(), flags)?;
    if start > text.chars().count() + 1 {
        return Ok(v[0].clone());
    }
    let mut made = String::new();
    let (mut copied, mut required) = (0, LARGE_BYTES);
    for (at, found) in matches_from(&regex, text, start_of(text, start)).enumerate() {
        let found = found?;
        let (start, end) = found.whole();
        if number != 0 && at + 1 != number {
            continue;
        }
        made.push_str(&text[copied..start]);
        expand(replacement, &found, text, &mut made);
        if made.len() >= required {
            required = 2 * made.len();
            context.environment.require_value(made.len())?;
        }
        copied = end;
        if number != 0 {
            break;
        }
    }
    made.push_str(&text[copied..]);
    Ok(Value::text(made))
}

/// All matches from a byte on; `^` still means the start of the whole text. After an empty match the search continues
/// one character later, so that an empty match may follow another match at once.
fn matches_from<'t>(
    program: &'t Program,
    text: &'t str,
    from: usize,
) -> impl Iterator<Item = Result<Found>> + 't {
    let mut next = Some(from);
    std::iter::from_fn(move || {
        let from = next?;
        let found = check().and_then(|()| program.captures_at(text, from)).transpose()?;
        if let Ok(found) = &found {
            let (start, end) = found.whole();
            next = match text[end..].chars().next() {
                _ if start < end => Some(end),
                Some(character) => Some(end + character.len_utf8()),
                None => None,
            };
        }
        Some(found)
    })
}

/// `\\1` to `\\9` are groups, `\\&` is the match, two backslashes one.
fn expand(replacement: &str, found: &Found, text: &str, out: &mut String) {
    let part = |group| found.group(group).map_or("", |(start, end)| &text[start..end]);
    let mut characters = replacement.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('&') => out.push_str(part(0)),
            Some(digit @ '1'..='9') => out.push_str(part(digit as usize - '0' as usize)),
            Some('\\') => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
}

/// The parts between matches; empty matches at the ends and after other matches do not split.
fn split<'t>(v: &'t [Value], function: &str) -> Result<Vec<&'t str>> {
    let text = v[0].str();
    let regex = compile(v[1].str(), single_flags(v.get(2), function)?)?;
    let mut parts = Vec::new();
    let (mut from, mut last_end) = (0, 0);
    for found in matches_from(&regex, text, 0) {
        let (start, end) = found?.whole();
        if start < text.len() && end > last_end {
            parts.push(&text[from..start]);
            from = end;
        }
        last_end = end;
    }
    parts.push(&text[from..]);
    Ok(parts)
}

fn regexp_split_to_array(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let parts = split(v, "regexp_split_to_array")?.into_iter().map(Value::text).collect();
    Ok(Value::array(ArrayValue::list(Type::Text, parts)))
}

fn regexp_split_to_table(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Box<dyn Rows>> {
    let parts: Vec<Value> = split(v, "regexp_split_to_table")?.into_iter().map(Value::text).collect();
    Ok(Box::new(RowsOf(parts.into_iter().map(Ok))))
}

fn regexp_count(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let start = v.get(2).map_or(Ok(1), |value| at_least(value, 1, "start"))?;
    let regex = compile(v[1].str(), single_flags(v.get(3), "regexp_count")?)?;
    let text = v[0].str();
    if start > text.chars().count() + 1 {
        return Ok(Value::Int4(0));
    }
    let mut found = matches_from(&regex, text, start_of(text, start));
    found.try_fold(0, |count, found| found.map(|_| count + 1)).map(Value::Int4)
}

/// The part of the n-th match that a group covers, in bytes; none if there is no such match or group.
fn nth_part(
    v: &[Value],
    start: Option<&Value>,
    number: Option<&Value>,
    flags: Flags,
    group: Option<&Value>,
) -> Result<Option<(usize, usize)>> {
    let text = v[0].str();
    let start = start.map_or(Ok(1), |value| at_least(value, 1, "start"))?;
    let number = number.map_or(Ok(1), |value| at_least(value, 1, "n"))?;
    let group = group.map_or(Ok(0), |value| at_least(value, 0, "subexpr"))?;
    let regex = compile(v[1].str(), flags)?;
    if start > text.chars().count() + 1 {
        return Ok(None);
    }
    let mut found = matches_from(&regex, text, start_of(text, start));
    for _ in 1..number {
        if found.next().transpose()?.is_none() {
            return Ok(None);
        }
    }
    Ok(found.next().transpose()?.and_then(|found| found.group(group)))
}

fn regexp_instr(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let is_end = match v.get(4).map_or(0, Value::int4) {
        0 => false,
        1 => true,
        other => {
            let message = format!("invalid value for parameter \"endoption\": {other}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    };
    let flags = single_flags(v.get(5), "regexp_instr")?;
    let found = nth_part(v, v.get(2), v.get(3), flags, v.get(6))?;
    let characters = |at: usize| v[0].str()[..at].chars().count() as i32 + 1;
    Ok(Value::Int4(found.map_or(0, |(start, end)| characters(if is_end { end } else { start }))))
}

fn regexp_substr(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let flags = single_flags(v.get(4), "regexp_substr")?;
    let found = nth_part(v, v.get(2), v.get(3), flags, v.get(5))?;
    Ok(found.map_or(Value::Null, |(start, end)| Value::text(&v[0].str()[start..end])))
}
