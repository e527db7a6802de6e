//! Type names: SQL's spellings, modifiers, arrays, intervals.

use crate::error::{Result, SqlError, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::{Parser, Reference};
use crate::parse::syntax::{At, Name, ObjectName, TypeName};
use crate::types::Modifier;
use crate::types::datetime::parse_interval::parse_interval;
use crate::types::environment::IntervalStyle;

/// PostgreSQL's bits for the fields of an interval's modifier.
const FIELDS: &[(&str, i32)] = &[
    ("year", 1 << 2),
    ("month", 1 << 1),
    ("day", 1 << 3),
    ("hour", HOUR),
    ("minute", MINUTE),
    ("second", 1 << 12),
];
const HOUR: i32 = 1 << 10;
const MINUTE: i32 = 1 << 11;
const ALL_FIELDS: i32 = 0x7fff;
/// Every digit of a second.
const ALL_DIGITS: i32 = 0xffff;

fn named(name: &str, at: At) -> TypeName {
    let part = Name { text: name.to_string(), at };
    let name = ObjectName { parts: vec![part] };
    TypeName { name, modifiers: Vec::new(), interval_fields: None, dimensions: 0, set_of: false, at }
}

impl Parser<'_> {
    /// A type.
    pub fn type_name(&mut self) -> Result<TypeName> {
        let set_of = self.accept("setof");
        let mut ty = self.simple_type()?;
        ty.set_of = set_of;
        if self.accept("array") {
            ty.dimensions = 1;
            if self.accept_mark("[") {
                self.signed_integer()?;
                self.expect_mark("]")?;
            }
            return Ok(ty);
        }
        while self.is_mark(0, "[") && (self.is_mark(1, "]") || self.is_mark(2, "]")) {
            self.advance();
            if !self.is_mark(0, "]") {
                self.signed_integer()?;
            }
            self.expect_mark("]")?;
            ty.dimensions += 1;
        }
        Ok(ty)
    }

    fn simple_type(&mut self) -> Result<TypeName> {
        let at = self.position();
        let word = match self.peek(0) {
            TokenKind::Word(word) => word.to_string(),
            _ => String::new(),
        };
        let plain = match word.as_str() {
            "int" | "integer" => "int4",
            "smallint" => "int2",
            "bigint" => "int8",
            "real" => "float4",
            "boolean" => "bool",
            "dec" | "decimal" | "numeric" => return self.with_modifiers("numeric", at),
            "float" => return self.float(at),
            "double" if self.is_word(1, "precision") => {
                self.advance();
                "float8"
            }
            "character" | "char" | "nchar" | "varchar" | "national" => return self.character(at),
            "bit" => return self.bit(at),
            "time" | "timestamp" => return self.time(&word, at),
            "interval" => {
                let mut ty = self.interval_type_start()?;
                if ty.modifiers.is_empty() {
                    self.interval_fields(&mut ty)?;
                }
                return Ok(ty);
            }
            _ => return self.general_type(at),
        };
        self.advance();
        Ok(named(plain, at))
    }

    /// A type by its name, perhaps qualified and with modifiers.
    fn general_type(&mut self, at: At) -> Result<TypeName> {
        self.refer(Reference::Type);
        let Some(first) = self.function_name() else { return Err(self.unexpected()) };
        let mut parts = vec![first];
        while self.accept_mark(".") {
            parts.push(self.label()?);
        }
        let modifiers = self.modifiers()?;
        Ok(TypeName { name: ObjectName { parts }, modifiers, ..named("", at) })
    }

    fn modifiers(&mut self) -> Result<Vec<i64>> {
        if self.is_mark(0, "(") { self.in_parentheses(Self::signed_integer) } else { Ok(Vec::new()) }
    }

    fn with_modifiers(&mut self, name: &str, at: At) -> Result<TypeName> {
        self.advance();
        let modifiers = self.modifiers()?;
        Ok(TypeName { modifiers, ..named(name, at) })
    }

    /// `float(p)`: real up to 24 bits, double precision up to 53.
    fn float(&mut self, at: At) -> Result<TypeName> {
        let ty = self.with_modifiers("float8", at)?;
        let name = match ty.modifiers[..] {
            [] | [25..=53] => "float8",
            [1..=24] => "float4",
            [bits, ..] => {
                let limit = if bits < 1 { "at least 1 bit" } else { "less than 54 bits" };
                let message = format!("precision for type float must be {limit}");
                return Err(self.error(at, SqlState::INVALID_PARAMETER_VALUE, message));
            }
        };
        Ok(named(name, at))
    }

    fn character(&mut self, at: At) -> Result<TypeName> {
        if self.accept("national") && !self.is_one_of(&["character", "char"]) {
            return Err(self.unexpected());
        }
        let varying = self.accept("varchar") || {
            self.advance();
            self.accept("varying")
        };
        let mut modifiers = self.modifiers()?;
        if !varying && modifiers.is_empty() {
            modifiers.push(1);
        }
        Ok(TypeName { modifiers, ..named(if varying { "varchar" } else { "bpchar" }, at) })
    }

    fn bit(&mut self, at: At) -> Result<TypeName> {
        self.advance();
        let name = if self.accept("varying") { "varbit" } else { "bit" };
        let mut modifiers = self.modifiers()?;
        if name == "bit" && modifiers.is_empty() {
            modifiers.push(1);
        }
        Ok(TypeName { modifiers, ..named(name, at) })
    }

    fn time(&mut self, word: &str, at: At) -> Result<TypeName> {
        self.advance();
        let modifiers = self.modifiers()?;
        let zoned = if self.accept_words(&["with", "time", "zone"]) {
            true
        } else {
            self.accept_words(&["without", "time", "zone"]);
            false
        };
        let name = match (word, zoned) {
            ("time", false) => "time",
            ("time", true) => "timetz",
            (_, false) => "timestamp",
            (_, true) => "timestamptz",
        };
        Ok(TypeName { modifiers, ..named(name, at) })
    }

    /// `interval` or `interval(p)`.
    pub fn interval_type_start(&mut self) -> Result<TypeName> {
        let at = self.position();
        self.with_modifiers("interval", at)
    }

    /// `year to month` and the like after `interval`.
    pub fn interval_fields(&mut self, ty: &mut TypeName) -> Result<()> {
        let find = |parser: &Self| FIELDS.iter().position(|(name, _)| parser.is_word(0, name));
        let Some(first) = find(self) else { return Ok(()) };
        self.advance();
        let mut last = first;
        if self.is_word(0, "to") {
            self.advance();
            last = find(self)
                .filter(|&last| last > first && (first > 1 || last == 1))
                .ok_or_else(|| self.unexpected())?;
            self.advance();
        }
        ty.interval_fields = Some(FIELDS[first..=last].iter().map(|(_, bit)| bit).sum());
        if last == FIELDS.len() - 1 {
            ty.modifiers = self.modifiers()?;
        }
        Ok(())
    }

    /// The interval of SET TIME ZONE INTERVAL, as hours east.
    pub fn zone_interval(&mut self) -> Result<String> {
        let mut ty = TypeName { modifiers: self.modifiers()?, ..named("interval", self.position()) };
        let at = self.position();
        let text = self.string()?;
        if ty.modifiers.is_empty() {
            self.interval_fields(&mut ty)?;
        }
        let fields = ty.interval_fields.unwrap_or(ALL_FIELDS);
        if ![ALL_FIELDS, HOUR, HOUR | MINUTE].contains(&fields) {
            let message = "time zone interval must be HOUR or HOUR TO MINUTE";
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        }
        let interval = parse_interval(&text, Modifier((fields << 16) | ALL_DIGITS), IntervalStyle::Postgres)?;
        let message = || format!("invalid value for parameter \"TimeZone\": \"INTERVAL '{text}'\"");
        for (count, unit) in [(interval.months, "months"), (interval.days, "days")] {
            if count != 0 {
                let detail = format!("Cannot specify {unit} in time zone interval.");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message()).with_detail(detail));
            }
        }
        Ok((interval.micros as f64 / 3.6e9).to_string())
    }
}
