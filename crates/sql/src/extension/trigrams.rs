//! `pg_trgm`: how similar texts are, by the groups of three characters that they share.
//!
//! A text's words are written in lower case, with two blanks before and one after, and every three adjacent characters
//! make a trigram. Trigrams of other characters than ASCII's are replaced by three bytes of a checksum, as in
//! PostgreSQL.
//!
//! Source: PostgreSQL 15, `contrib/pg_trgm/trgm_op.c`.

use std::cmp::Ordering;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::interrupt::step;
use crate::types::array::ArrayValue;
use crate::types::{Type, Value};

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("set_limit(float4) float4", set_limit).volatile(),
    scalar("show_limit() float4", |c, _| Ok(Value::Float4(threshold(c, &SIMILARITY)))).stable(),
    scalar("show_trgm(text) text[]", show),
    scalar("similarity(text, text) float4", |_, v| similarity(v).map(Value::Float4)),
    scalar("similarity_op(text, text) bool", is_similar).stable(),
    scalar("similarity_dist(text, text) float4", distance),
    scalar("word_similarity(text, text) float4", |_, v| word(v, false, false).map(Value::Float4)),
    scalar("word_similarity_op(text, text) bool", |c, v| is_word_similar(c, v, false, false)).stable(),
    scalar("word_similarity_commutator_op(text, text) bool", |c, v| is_word_similar(c, v, true, false))
        .stable(),
    scalar("word_similarity_dist_op(text, text) float4", |_, v| word_distance(v, false, false)),
    scalar("word_similarity_dist_commutator_op(text, text) float4", |_, v| word_distance(v, true, false)),
    scalar("strict_word_similarity(text, text) float4", |_, v| word(v, false, true).map(Value::Float4)),
    scalar("strict_word_similarity_op(text, text) bool", |c, v| is_word_similar(c, v, false, true)).stable(),
    scalar("strict_word_similarity_commutator_op(text, text) bool", |c, v| is_word_similar(c, v, true, true))
        .stable(),
    scalar("strict_word_similarity_dist_op(text, text) float4", |_, v| word_distance(v, false, true)),
    scalar("strict_word_similarity_dist_commutator_op(text, text) float4", |_, v| {
        word_distance(v, true, true)
    }),
];

/// The operators.
pub(crate) const OPERATORS: &[Definition] = &[
    scalar("%(text, text) bool", is_similar).stable(),
    scalar("<->(text, text) float4", distance),
    scalar("<%(text, text) bool", |c, v| is_word_similar(c, v, false, false)).stable(),
    scalar("%>(text, text) bool", |c, v| is_word_similar(c, v, true, false)).stable(),
    scalar("<<->(text, text) float4", |_, v| word_distance(v, false, false)),
    scalar("<->>(text, text) float4", |_, v| word_distance(v, true, false)),
    scalar("<<%(text, text) bool", |c, v| is_word_similar(c, v, false, true)).stable(),
    scalar("%>>(text, text) bool", |c, v| is_word_similar(c, v, true, true)).stable(),
    scalar("<<<->(text, text) float4", |_, v| word_distance(v, false, true)),
    scalar("<->>>(text, text) float4", |_, v| word_distance(v, true, true)),
];

/// A setting, and its value unless it is set.
type Setting = (&'static str, f32);

const SIMILARITY: Setting = ("pg_trgm.similarity_threshold", 0.3);
const WORD_SIMILARITY: Setting = ("pg_trgm.word_similarity_threshold", 0.6);
const STRICT_WORD_SIMILARITY: Setting = ("pg_trgm.strict_word_similarity_threshold", 0.5);

fn threshold(context: &FunctionContext<'_>, (name, default): &Setting) -> f32 {
    let set = context.environment.setting(name);
    set.and_then(|text| text.parse().ok()).unwrap_or(*default)
}

fn set_limit(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let limit = v[0].float4();
    if !(0.0..=1.0).contains(&limit) {
        let message =
            format!("{limit} is outside the valid range for parameter \"{}\" (0 .. 1)", SIMILARITY.0);
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    context.environment.change_setting(SIMILARITY.0, &limit.to_string(), false)?;
    Ok(Value::Float4(limit))
}

/// Three bytes, compared as signed ones.
type Trigram = [i8; 3];

/// A trigram of a text, and whether a word begins or ends with it.
#[derive(Clone, Copy)]
struct Placed {
    trigram: Trigram,
    is_first: bool,
    is_last: bool,
}

/// The checksum that PostgreSQL's trigrams use: the reflected table, applied in the other direction.
fn checksum(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let (mut entry, mut bit) = (at as u32, 0);
            while bit < 8 {
                entry = if entry & 1 == 1 { entry >> 1 ^ 0xedb8_8320 } else { entry >> 1 };
                bit += 1;
            }
            table[at] = entry;
            at += 1;
        }
        table
    };
    let next = |sum: u32, byte: &u8| TABLE[(sum >> 24 ^ u32::from(*byte)) as usize & 0xff] ^ sum << 8;
    !bytes.iter().fold(!0, next)
}

fn trigram(characters: &[char]) -> Trigram {
    let text: String = characters.iter().collect();
    match *text.as_bytes() {
        [a, b, c] => [a, b, c].map(u8::cast_signed),
        ref bytes => {
            let [a, b, c, _] = checksum(bytes).to_le_bytes();
            [a, b, c].map(u8::cast_signed)
        }
    }
}

/// The trigrams of a text, in its order.
fn placed(text: &str) -> Result<Vec<Placed>> {
    let mut found = Vec::new();
    let lower = text.to_lowercase();
    for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let characters: Vec<char> = "  ".chars().chain(word.chars()).chain([' ']).collect();
        let count = characters.len() - 2;
        for (at, three) in characters.windows(3).enumerate() {
            step()?;
            let (is_first, is_last) = (at == 0, at + 1 == count);
            found.push(Placed { trigram: trigram(three), is_first, is_last });
        }
    }
    Ok(found)
}

/// The different trigrams of a text, in their order.
fn trigrams(text: &str) -> Result<Vec<Trigram>> {
    let mut found: Vec<Trigram> = placed(text)?.into_iter().map(|it| it.trigram).collect();
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn show(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let is_shown = |byte: &i8| {
        let byte = byte.cast_unsigned();
        byte.is_ascii_alphanumeric() || byte == b' '
    };
    let text = |trigram: Trigram| match trigram.iter().all(is_shown) {
        true => Value::text(trigram.map(|byte| char::from(byte.cast_unsigned())).iter().collect::<String>()),
        false => {
            let [a, b, c] = trigram.map(i8::cast_unsigned);
            Value::text(format!("0x{a:02x}{b:02x}{c:02x}"))
        }
    };
    let texts = trigrams(v[0].str())?.into_iter().map(text).collect();
    Ok(Value::array(ArrayValue::list(Type::Text, texts)))
}

/// The share of common trigrams among all that two texts have.
fn share(common: usize, left: usize, right: usize) -> f32 {
    common as f32 / (left + right - common) as f32
}

fn similarity(v: &[Value]) -> Result<f32> {
    let (left, right) = (trigrams(v[0].str())?, trigrams(v[1].str())?);
    if left.is_empty() || right.is_empty() {
        return Ok(0.0);
    }
    let (mut at, mut other, mut common) = (0, 0, 0);
    while at < left.len() && other < right.len() {
        match left[at].cmp(&right[other]) {
            Ordering::Less => at += 1,
            Ordering::Greater => other += 1,
            Ordering::Equal => (at, other, common) = (at + 1, other + 1, common + 1),
        }
    }
    Ok(share(common, left.len(), right.len()))
}

fn is_similar(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    Ok(Value::Bool(similarity(v)? >= threshold(context, &SIMILARITY)))
}

fn distance(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    Ok(Value::Float4(1.0 - similarity(v)?))
}

fn is_word_similar(
    context: &mut FunctionContext<'_>,
    v: &[Value],
    is_swapped: bool,
    is_strict: bool,
) -> Result<Value> {
    let setting = if is_strict { &STRICT_WORD_SIMILARITY } else { &WORD_SIMILARITY };
    Ok(Value::Bool(word(v, is_swapped, is_strict)? >= threshold(context, setting)))
}

fn word_distance(v: &[Value], is_swapped: bool, is_strict: bool) -> Result<Value> {
    Ok(Value::Float4(1.0 - word(v, is_swapped, is_strict)?))
}

/// The greatest similarity of the first text with a part of the second one: of whole words, if strict.
fn word(v: &[Value], is_swapped: bool, is_strict: bool) -> Result<f32> {
    let (wanted, within) = if is_swapped { (&v[1], &v[0]) } else { (&v[0], &v[1]) };
    let (wanted, within) = (trigrams(wanted.str())?, placed(within.str())?);
    let mut all: Vec<Trigram> = wanted.iter().copied().chain(within.iter().map(|it| it.trigram)).collect();
    all.sort_unstable();
    all.dedup();
    let number = |trigram: &Trigram| all.binary_search(trigram).unwrap_or_default();
    let mut is_wanted = vec![false; all.len()];
    wanted.iter().for_each(|trigram| is_wanted[number(trigram)] = true);
    let numbers: Vec<usize> = within.iter().map(|it| number(&it.trigram)).collect();
    greatest_share(&numbers, &within, &is_wanted, wanted.len(), is_strict)
}

/// Moves both ends of a part of the text over its trigrams. Each has a number; `last` is its last position in the part.
fn greatest_share(
    numbers: &[usize],
    placed: &[Placed],
    is_wanted: &[bool],
    wanted: usize,
    is_strict: bool,
) -> Result<f32> {
    let mut last: Vec<Option<usize>> = vec![None; is_wanted.len()];
    let mut lower = is_strict.then_some(0);
    let (mut different, mut common, mut greatest) = (0, 0, 0.0_f32);
    for (upper, &number) in numbers.iter().enumerate() {
        step()?;
        if lower.is_some() || is_wanted[number] {
            if last[number].is_none() {
                different += 1;
                common += usize::from(is_wanted[number]);
            }
            last[number] = Some(upper);
        }
        let is_end = if is_strict { placed[upper].is_last } else { is_wanted[number] };
        if !is_end {
            continue;
        }
        let first = *lower.get_or_insert_with(|| {
            different = 1;
            upper
        });
        let mut best = share(common, wanted, different);
        let (mut tried_common, mut tried_different, mut chosen) = (common, different, first);
        for at in first..=upper {
            if !is_strict || placed[at].is_first {
                let tried = share(tried_common, wanted, tried_different);
                if tried > best {
                    (best, chosen) = (tried, at);
                    (common, different) = (tried_common, tried_different);
                }
            }
            if last[numbers[at]] == Some(at) {
                tried_different -= 1;
                tried_common -= usize::from(is_wanted[numbers[at]]);
            }
        }
        greatest = greatest.max(best);
        for at in first..chosen {
            if last[numbers[at]] == Some(at) {
                last[numbers[at]] = None;
            }
        }
        lower = Some(chosen);
    }
    Ok(greatest)
}
