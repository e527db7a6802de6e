//! The form of types and modifiers in stored definitions: the numbers that clients see.

/// A type as its oid.
pub(crate) mod oid {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::types::Type;

    pub fn serialize<S: Serializer>(ty: &Type, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(ty.oid())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Type, D::Error> {
        let oid = u32::deserialize(deserializer)?;
        Type::from_oid(oid).ok_or_else(|| D::Error::custom(format!("{oid} is not a type")))
    }
}

/// A modifier as its number.
pub(crate) mod modifier {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::types::Modifier;

    pub fn serialize<S: Serializer>(modifier: &Modifier, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i32(modifier.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Modifier, D::Error> {
        i32::deserialize(deserializer).map(Modifier)
    }
}
