//! Types as they are written: names, modifiers, arrays, enums, domains.

use crate::bind::binder::Binder;
use crate::catalog::{Domain, UserType};
use crate::error::{Result, SqlState};
use crate::parse::syntax::TypeName;
use crate::types::top_k::ENTRIES_MAX;
use crate::types::{Modifier, Type};
use std::sync::Arc;

/// A type that a name was found to mean.
#[derive(Clone, Debug)]
pub(crate) struct NamedType {
    pub ty: Type,
    pub modifier: Modifier,
    /// The domain, if the name is one's; `ty` and `modifier` are then those beneath.
    pub domain: Option<Arc<Domain>>,
}

impl Binder<'_> {
    /// The type that a name means.
    pub fn named_type(&self, name: &TypeName) -> Result<NamedType> {
        if name.set_of {
            return Err(self.unsupported(name.at, "SETOF types are not supported here"));
        }
        let mut found = self.element_type(name)?;
        if name.dimensions > 0 {
            let array = found.ty.array().filter(|_| found.domain.is_none());
            found.ty =
                array.ok_or_else(|| self.unsupported(name.at, "arrays of this type are not supported"))?;
        }
        Ok(found)
    }

    fn element_type(&self, name: &TypeName) -> Result<NamedType> {
        self.check_named_schema(&name.name)?;
        let own = name.name.last();
        let in_catalog = matches!(name.name.schema(), None | Some("pg_catalog"));
        let built_in = if in_catalog { Self::built_in(name) } else { None };
        if let Some(ty) = built_in {
            let modifier = self.modifier(ty, name)?;
            return Ok(NamedType { ty, modifier, domain: None });
        }
        if in_catalog
            && matches!(
                own,
                "money"
                    | "xml"
                    | "point"
                    | "box"
                    | "circle"
                    | "line"
                    | "path"
                    | "polygon"
                    | "lseg"
                    | "macaddr8"
                    | "tsvector"
                    | "tsquery"
                    | "int4range"
                    | "int8range"
                    | "numrange"
                    | "tsrange"
                    | "tstzrange"
                    | "daterange"
            )
        {
            return Err(self.unsupported(name.at, &format!("type {own} is not supported")));
        }
        match self.context.catalog.find_type(name.name.schema(), own, &self.path) {
            Some(UserType::Enum(ty)) => {
                Ok(NamedType { ty: Type::Enum(ty.oid), modifier: Modifier::NONE, domain: None })
            }
            Some(UserType::Domain(domain)) => {
                Ok(NamedType { ty: domain.ty, modifier: domain.modifier, domain: Some(domain.clone()) })
            }
            Some(UserType::Composite(ty)) => {
                Ok(NamedType { ty: Type::Composite(ty.oid), modifier: Modifier::NONE, domain: None })
            }
            None if let Some(ty) =
                self.context.catalog.find_row_type(name.name.schema(), own, &self.path) =>
            {
                Ok(NamedType { ty, modifier: Modifier::NONE, domain: None })
            }
            None => {
                let message = format!("type \"{}\" does not exist", name.name);
                Err(self.error(name.at, SqlState::UNDEFINED_OBJECT, message))
            }
        }
    }

    fn built_in(name: &TypeName) -> Option<Type> {
        let own = name.name.last();
        // The parser writes SQL's own spellings as PostgreSQL's names; a quoted "char" is another type.
        if own == "unknown" || own == "serial" { None } else { Type::from_name(own) }
    }

    /// Binds the modifier in parentheses after a type's name.
    fn modifier(&self, ty: Type, name: &TypeName) -> Result<Modifier> {
        let wrong = |message: String| self.error(name.at, SqlState::INVALID_PARAMETER_VALUE, message);
        let element = ty.element().unwrap_or(ty);
        let digits = |limit: i64| -> Result<Modifier> {
            match name.modifiers[..] {
                [] => Ok(Modifier::NONE),
                [digits] if digits < 0 => Err(wrong(format!(
                    "{}({digits}) precision must not be negative",
                    element.display_name().to_uppercase()
                ))),
                // PostgreSQL warns and uses the largest.
                [digits] => Ok(Modifier::precision(digits.min(limit) as i32)),
                _ => Err(wrong("invalid type modifier".to_string())),
            }
        };
        match (element, &name.modifiers[..]) {
            (Type::Interval, _) => Ok(interval_modifier(name)),
            (_, []) => Ok(Modifier::NONE),
            (Type::Varchar | Type::Bpchar, &[length]) => {
                let kind = if element == Type::Varchar { "varchar" } else { "char" };
                match length {
                    1..=10_485_760 => Ok(Modifier::length(length as i32)),
                    ..=0 => Err(wrong(format!("length for type {kind} must be at least 1"))),
                    _ => Err(wrong(format!("length for type {kind} cannot exceed 10485760"))),
                }
            }
            (Type::Bit | Type::Varbit, &[length]) => match length {
                1..=MAX_BITS => Ok(Modifier::bits(length as i32)),
                ..=0 => Err(wrong(format!("length for type {} must be at least 1", bit_name(element)))),
                _ => Err(wrong(format!("length for type {} cannot exceed {MAX_BITS}", bit_name(element)))),
            },
            (Type::TopK, &[limit]) => match u32::try_from(limit) {
                Ok(limit @ 1..=ENTRIES_MAX) => Ok(Modifier(limit as i32)),
                _ => {
                    Err(wrong(format!("the number of entries of a topk must be between 1 and {ENTRIES_MAX}")))
                }
            },
            (Type::Numeric, &[precision] | &[precision, _]) => {
                let scale = name.modifiers.get(1).copied().unwrap_or(0);
                if !(1..=1000).contains(&precision) {
                    return Err(wrong(format!("NUMERIC precision {precision} must be between 1 and 1000")));
                }
                if !(-1000..=1000).contains(&scale) {
                    return Err(wrong(format!("NUMERIC scale {scale} must be between -1000 and 1000")));
                }
                Ok(Modifier::numeric(precision as i32, scale as i32))
            }
            (Type::Time | Type::Timetz | Type::Timestamp | Type::Timestamptz, _) => digits(6),
            (Type::Varchar | Type::Bpchar | Type::Numeric | Type::Bit | Type::Varbit | Type::TopK, _) => {
                Err(wrong("invalid type modifier".to_string()))
            }
            _ => {
                let message = format!("type modifier is not allowed for type \"{}\"", name.name.last());
                Err(self.error(name.at, SqlState::SYNTAX_ERROR, message))
            }
        }
    }
}

/// The most bits of a bit string.
const MAX_BITS: i64 = 83_886_080;

fn bit_name(ty: Type) -> &'static str {
    if ty == Type::Bit { "bit" } else { "varbit" }
}

/// Fields and digits of an interval, as PostgreSQL packs them.
fn interval_modifier(name: &TypeName) -> Modifier {
    const ALL_FIELDS: i32 = 0x7fff;
    const ALL_DIGITS: i32 = 0xffff;
    let digits = name.modifiers.first().map(|&digits| digits.clamp(0, 6) as i32);
    if name.interval_fields.is_none() && digits.is_none() {
        return Modifier::NONE;
    }
    Modifier((name.interval_fields.unwrap_or(ALL_FIELDS) << 16) | digits.unwrap_or(ALL_DIGITS))
}
