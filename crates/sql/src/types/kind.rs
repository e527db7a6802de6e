//! Types, as PostgreSQL names them: oid, names, category, length and array.
//!
//! Invariants: a type is `Copy` and small; modifiers (`varchar(10)`) are separate, in [`Modifier`]; two types are equal
//! exactly if their oids are. Oids of built-in types are PostgreSQL's, because clients know them.

#[cfg(test)]
mod tests;

use std::fmt;

/// The first oid of user-defined objects; enum types are above it.
pub const FIRST_USER_OID: u32 = 16384;

/// First oid of row types: the row type of a relation, or the composite type of a catalog's entry, has this bit beside
/// the relation's oid. Oids that the catalog gives stay below it.
pub const ROW_TYPE: u32 = 1 << 29;
/// End of the oids of row types.
const ROW_TYPES_END: u32 = 1 << 30;

/// The letter by which PostgreSQL groups types for the choice of overloaded functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// `A`
    Array,
    /// `B`
    Boolean,
    /// `C`: rows
    Composite,
    /// `D`
    DateTime,
    /// `E`
    Enum,
    /// `I`
    Network,
    /// `N`
    Numeric,
    /// `P`: polymorphic and other types that no column has, and records
    Pseudo,
    /// `S`
    String,
    /// `T`
    Timespan,
    /// `U`: all types without a group
    UserDefined,
    /// `V`: bit strings
    BitString,
    /// `X`: a literal whose type is not known yet
    Unknown,
    /// `Z`: internal, such as `"char"`
    Internal,
}

impl Category {
    /// The letter in `pg_type.typcategory`.
    pub fn letter(self) -> char {
        match self {
            Category::Array => 'A',
            Category::Boolean => 'B',
            Category::BitString => 'V',
            Category::Composite => 'C',
            Category::DateTime => 'D',
            Category::Enum => 'E',
            Category::Network => 'I',
            Category::Numeric => 'N',
            Category::Pseudo => 'P',
            Category::String => 'S',
            Category::Timespan => 'T',
            Category::UserDefined => 'U',
            Category::Unknown => 'X',
            Category::Internal => 'Z',
        }
    }
}

/// The element type of an array type: any type but an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Element(u32);

impl Element {
    /// The type itself.
    pub fn get(self) -> Type {
        Type::from_oid(self.0).unwrap_or(Type::Unknown)
    }
}

impl fmt::Debug for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(formatter)
    }
}

macro_rules! types {
    ($($variant:ident $oid:literal $array:literal $name:literal $long:literal $length:literal $category:ident $preferred:literal,)*) => {
        /// A type. See `docs/sql.md` for what each holds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Type {
            $(
                #[doc = concat!("`", $long, "`")]
                $variant,
            )*
            /// A user-defined enum, by its oid.
            Enum(u32),
            /// The rows of a relation or of a composite type, by the type's oid.
            Composite(u32),
            /// An array of any number of dimensions; the elements are never arrays.
            Array(Element),
        }

        impl Type {
            /// Every type but enums and arrays.
            pub const BUILT_IN: &'static [Type] = &[$(Type::$variant),*];

            fn facts(self) -> Option<Facts> {
                match self {
                    $(Type::$variant => Some(Facts {
                        oid: $oid, array: $array, name: $name, long: $long, length: $length,
                        category: Category::$category, preferred: $preferred,
                    }),)*
                    Type::Enum(_) | Type::Composite(_) | Type::Array(_) => None,
                }
            }

            /// The type with this oid; oids of user-defined types are treated as enums, odd ones as their arrays.
            pub fn from_oid(oid: u32) -> Option<Type> {
                match oid {
                    $($oid => Some(Type::$variant),)*
                    $($array if $array != 0 => Some(Type::Array(Element($oid))),)*
                    ROW_TYPE..ROW_TYPES_END if oid % 2 == 0 => Some(Type::Composite(oid)),
                    FIRST_USER_OID.. if oid % 2 == 0 => Some(Type::Enum(oid)),
                    FIRST_USER_OID.. => Some(Type::Array(Element(oid - 1))),
                    _ => None,
                }
            }
        }
    };
}

struct Facts {
    oid: u32,
    array: u32,
    name: &'static str,
    long: &'static str,
    length: i16,
    category: Category,
    preferred: bool,
}

types! {
    Bool 16 1000 "bool" "boolean" 1 Boolean true,
    Bytea 17 1001 "bytea" "bytea" -1 UserDefined false,
    Char 18 1002 "char" "\"char\"" 1 Internal false,
    Name 19 1003 "name" "name" 64 String false,
    Int8 20 1016 "int8" "bigint" 8 Numeric false,
    Int2 21 1005 "int2" "smallint" 2 Numeric false,
    Int2Vector 22 1006 "int2vector" "int2vector" -1 Array false,
    Int4 23 1007 "int4" "integer" 4 Numeric false,
    Regproc 24 1008 "regproc" "regproc" 4 Numeric false,
    Text 25 1009 "text" "text" -1 String true,
    Oid 26 1028 "oid" "oid" 4 Numeric true,
    Tid 27 1010 "tid" "tid" 6 UserDefined false,
    Xid 28 1011 "xid" "xid" 4 UserDefined false,
    OidVector 30 1013 "oidvector" "oidvector" -1 Array false,
    Json 114 199 "json" "json" -1 UserDefined false,
    Cidr 650 651 "cidr" "cidr" -1 Network false,
    Float4 700 1021 "float4" "real" 4 Numeric false,
    Float8 701 1022 "float8" "double precision" 8 Numeric true,
    Unknown 705 0 "unknown" "unknown" -2 Unknown false,
    Macaddr 829 1040 "macaddr" "macaddr" 6 UserDefined false,
    Inet 869 1041 "inet" "inet" -1 Network true,
    Bpchar 1042 1014 "bpchar" "character" -1 String false,
    Varchar 1043 1015 "varchar" "character varying" -1 String false,
    Date 1082 1182 "date" "date" 4 DateTime false,
    Time 1083 1183 "time" "time without time zone" 8 DateTime false,
    Timestamp 1114 1115 "timestamp" "timestamp without time zone" 8 DateTime false,
    Timestamptz 1184 1185 "timestamptz" "timestamp with time zone" 8 DateTime true,
    Interval 1186 1187 "interval" "interval" 16 Timespan true,
    Timetz 1266 1270 "timetz" "time with time zone" 12 DateTime false,
    Bit 1560 1561 "bit" "bit" -1 BitString false,
    Varbit 1562 1563 "varbit" "bit varying" -1 BitString true,
    Numeric 1700 1231 "numeric" "numeric" -1 Numeric false,
    Refcursor 1790 2201 "refcursor" "refcursor" -1 UserDefined false,
    Regprocedure 2202 2207 "regprocedure" "regprocedure" 4 Numeric false,
    Regoper 2203 2208 "regoper" "regoper" 4 Numeric false,
    Regoperator 2204 2209 "regoperator" "regoperator" 4 Numeric false,
    Regclass 2205 2210 "regclass" "regclass" 4 Numeric false,
    Regtype 2206 2211 "regtype" "regtype" 4 Numeric false,
    Record 2249 2287 "record" "record" -1 Pseudo false,
    Cstring 2275 1263 "cstring" "cstring" -2 Pseudo false,
    Any 2276 0 "any" "\"any\"" 4 Pseudo false,
    AnyArray 2277 0 "anyarray" "anyarray" -1 Pseudo false,
    Void 2278 0 "void" "void" 4 Pseudo false,
    Trigger 2279 0 "trigger" "trigger" 4 Pseudo false,
    AnyElement 2283 0 "anyelement" "anyelement" 4 Pseudo false,
    AnyNonArray 2776 0 "anynonarray" "anynonarray" 4 Pseudo false,
    Uuid 2950 2951 "uuid" "uuid" 16 UserDefined false,
    AnyEnum 3500 0 "anyenum" "anyenum" 4 Pseudo false,
    Jsonb 3802 3807 "jsonb" "jsonb" -1 UserDefined false,
    Jsonpath 4072 4073 "jsonpath" "jsonpath" -1 UserDefined false,
    Regnamespace 4089 4090 "regnamespace" "regnamespace" 4 Numeric false,
    Regrole 4096 4097 "regrole" "regrole" 4 Numeric false,
    Regcollation 4191 4192 "regcollation" "regcollation" 4 Numeric false,
    AnyCompatible 5077 0 "anycompatible" "anycompatible" 4 Pseudo false,
    AnyCompatibleArray 5078 0 "anycompatiblearray" "anycompatiblearray" -1 Pseudo false,
    AnyCompatibleNonArray 5079 0 "anycompatiblenonarray" "anycompatiblenonarray" 4 Pseudo false,
    TopK 8270 8271 "topk" "topk" -1 UserDefined false,
}

impl Type {
    /// The type's oid, which clients see in the description of a result.
    pub fn oid(self) -> u32 {
        match self {
            Type::Enum(oid) | Type::Composite(oid) => oid,
            Type::Array(element) => match element.get() {
                Type::Enum(oid) | Type::Composite(oid) => oid + 1,
                element => element.facts().map_or(0, |facts| facts.array),
            },
            other => other.facts().map_or(0, |facts| facts.oid),
        }
    }

    /// The array type over this one: itself if it is an array; none for types that have no arrays.
    pub fn array(self) -> Option<Type> {
        match self {
            Type::Array(_) => Some(self),
            Type::Enum(oid) | Type::Composite(oid) => Some(Type::Array(Element(oid))),
            other => {
                other.facts().filter(|facts| facts.array != 0).map(|facts| Type::Array(Element(facts.oid)))
            }
        }
    }

    /// The array type over a built-in type.
    pub fn array_of(element: Type) -> Type {
        element.array().unwrap_or(Type::Array(Element(Type::Text.oid())))
    }

    /// The type of the elements, if this is an array (`int2vector` and `oidvector` count).
    pub fn element(self) -> Option<Type> {
        match self {
            Type::Array(element) => Some(element.get()),
            Type::Int2Vector => Some(Type::Int2),
            Type::OidVector => Some(Type::Oid),
            _ => None,
        }
    }

    /// Returns true if this is an array type.
    pub fn is_array(self) -> bool {
        self.element().is_some()
    }

    /// Returns true if values of it are elements of an array, where other arrays are its inner dimensions.
    pub fn is_vector(self) -> bool {
        matches!(self, Type::Int2Vector | Type::OidVector)
    }

    /// The name in `pg_type`: `int4`, `_int4`. None for users' types, whose names the catalog knows.
    pub fn internal_name(self) -> Option<String> {
        match self {
            Type::Enum(_) | Type::Composite(_) => None,
            Type::Array(element) => element.get().internal_name().map(|name| format!("_{name}")),
            other => other.facts().map(|facts| facts.name.to_string()),
        }
    }

    /// The name as `format_type` prints it, without a modifier. None for users' types.
    pub fn sql_name(self) -> Option<String> {
        match self {
            Type::Enum(_) | Type::Composite(_) => None,
            Type::Array(element) => element.get().sql_name().map(|name| format!("{name}[]")),
            other => other.facts().map(|facts| facts.long.to_string()),
        }
    }

    /// The type's name for messages; a user's type without its name is shown by its oid.
    pub fn display_name(self) -> String {
        self.sql_name().unwrap_or_else(|| format!("type {}", self.oid()))
    }

    /// `pg_type.typlen`: bytes of a value, -1 for variable lengths, -2 for C strings.
    pub fn length(self) -> i16 {
        match self {
            Type::Enum(_) => 4,
            other => other.facts().map_or(-1, |facts| facts.length),
        }
    }

    /// The category by which overloads are chosen.
    pub fn category(self) -> Category {
        match self {
            Type::Enum(_) => Category::Enum,
            Type::Composite(_) => Category::Composite,
            Type::Array(_) => Category::Array,
            other => other.facts().map_or(Category::Pseudo, |facts| facts.category),
        }
    }

    /// Returns true if the type is the preferred one of its category.
    pub fn is_preferred(self) -> bool {
        self.facts().is_some_and(|facts| facts.preferred)
    }

    /// The row type of the relation with this oid.
    pub fn row_of(relation: u32) -> Type {
        Type::Composite(relation | ROW_TYPE)
    }

    /// The oid of the relation whose row type it is.
    pub fn row_relation(self) -> Option<u32> {
        match self {
            Type::Composite(oid) => Some(oid & !ROW_TYPE),
            _ => None,
        }
    }

    /// The oid of a user-defined type, or of the elements' if it is an array.
    pub fn user_oid(self) -> Option<u32> {
        match self.element().unwrap_or(self) {
            Type::Enum(oid) | Type::Composite(oid) => Some(oid),
            _ => None,
        }
    }

    /// The polymorphic type of the elements of a polymorphic array, or the type of an array's elements.
    pub fn declared_element(self) -> Option<Type> {
        match self {
            Type::AnyArray => Some(Type::AnyElement),
            Type::AnyCompatibleArray => Some(Type::AnyCompatible),
            other => other.element(),
        }
    }

    /// Returns true for the polymorphic types that represent the common type of several arguments.
    pub fn is_any_compatible(self) -> bool {
        matches!(self, Type::AnyCompatible | Type::AnyCompatibleArray | Type::AnyCompatibleNonArray)
    }

    /// Returns true if a function's argument or result of this type represents a type that its call decides.
    pub fn is_polymorphic(self) -> bool {
        matches!(
            self,
            Type::AnyElement
                | Type::AnyArray
                | Type::AnyNonArray
                | Type::AnyEnum
                | Type::AnyCompatible
                | Type::AnyCompatibleArray
                | Type::AnyCompatibleNonArray
        )
    }

    /// Returns true if the type holds an object identifier: `oid` and the `reg…` types.
    pub fn is_oid_like(self) -> bool {
        matches!(self, Type::Oid) || self.is_reg()
    }

    /// Returns true if the type prints an object identifier as a name.
    pub fn is_reg(self) -> bool {
        matches!(
            self,
            Type::Regclass
                | Type::Regtype
                | Type::Regproc
                | Type::Regprocedure
                | Type::Regoper
                | Type::Regoperator
                | Type::Regnamespace
                | Type::Regrole
                | Type::Regcollation
        )
    }

    /// The built-in type with this name: `pg_type`'s (`int4`, `_int4`), SQL's (`integer`), with `[]` after it for an
    /// array. Names are compared as they are: fold them before.
    pub fn from_name(name: &str) -> Option<Type> {
        if let Some(element) = name.strip_suffix("[]") {
            return Type::from_name(element)?.array();
        }
        let alias = match name {
            "int" => Some(Type::Int4),
            "decimal" | "dec" => Some(Type::Numeric),
            "float" | "double" => Some(Type::Float8),
            "timestamp with time zone" => Some(Type::Timestamptz),
            "time with time zone" => Some(Type::Timetz),
            "any" | "\"any\"" => Some(Type::Any),
            "char" => Some(Type::Char),
            _ => None,
        };
        let by_name = |name: &str| {
            let found =
                |kind: &&Type| kind.facts().is_some_and(|facts| facts.name == name || facts.long == name);
            Type::BUILT_IN.iter().find(found).copied()
        };
        alias.or_else(|| by_name(name)).or_else(|| name.strip_prefix('_').and_then(by_name)?.array())
    }
}

/// A type modifier as PostgreSQL's catalogs and protocol have it: -1 for none.
///
/// `varchar(n)` and `char(n)`: n + 4. `numeric(p, s)`: (p << 16 | s & 0x7ff) + 4. Times and timestamps: the digits
/// of a second. `bit(n)`, `bit varying(n)` and `topk(n)`: n. `interval`: fields << 16 | digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Modifier(pub i32);

impl Modifier {
    /// No modifier.
    pub const NONE: Modifier = Modifier(-1);

    /// The modifier of columns that a program has made with the engine's own dates and timestamps; otherwise like
    /// [`NONE`](Self::NONE).
    pub const ENGINE_TIME: Modifier = Modifier(-2);

    /// The modifier of `varchar(n)` and `char(n)`.
    pub const fn length(n: i32) -> Modifier {
        Modifier(n + 4)
    }

    /// The modifier of `numeric(precision, scale)`.
    pub const fn numeric(precision: i32, scale: i32) -> Modifier {
        Modifier(((precision << 16) | (scale & 0x7ff)) + 4)
    }

    /// The modifier of `time(digits)`, `timestamp(digits)` and the like.
    pub const fn precision(digits: i32) -> Modifier {
        Modifier(digits)
    }

    /// The modifier of `bit(n)` and `bit varying(n)`.
    pub const fn bits(n: i32) -> Modifier {
        Modifier(n)
    }

    /// Returns true if there is no modifier.
    pub const fn is_none(self) -> bool {
        self.0 < 0
    }

    /// The characters of `varchar(n)` or `char(n)`.
    pub fn characters(self) -> Option<usize> {
        if self.0 >= 4 { Some((self.0 - 4) as usize) } else { None }
    }

    /// Precision and scale of `numeric(p, s)`.
    pub fn numeric_parts(self) -> Option<(i32, i32)> {
        if self.0 < 4 {
            return None;
        }
        let packed = self.0 - 4;
        Some(((packed >> 16) & 0xffff, ((packed & 0x7ff) ^ 1024) - 1024))
    }
}

impl Default for Modifier {
    fn default() -> Modifier {
        Modifier::NONE
    }
}

/// A type's name with its modifier, as `format_type` prints it: `character varying(10)`, `numeric(10,2)[]`.
pub fn format_type(kind: Type, modifier: Modifier, name_of: &dyn Fn(u32) -> Option<String>) -> String {
    if let Type::Array(element) = kind {
        return format!("{}[]", format_type(element.get(), modifier, name_of));
    }
    let name = match kind {
        Type::Enum(oid) | Type::Composite(oid) => return name_of(oid).unwrap_or_else(|| "???".to_string()),
        other => other.display_name(),
    };
    if modifier.is_none() {
        return match kind {
            Type::Bpchar => "bpchar".to_string(),
            Type::Bit => "\"bit\"".to_string(),
            _ => name,
        };
    }
    match kind {
        Type::Varchar | Type::Bpchar => format!("{name}({})", modifier.0 - 4),
        Type::Bit | Type::Varbit | Type::TopK => format!("{name}({})", modifier.0),
        Type::Numeric => match modifier.numeric_parts() {
            Some((precision, scale)) => format!("numeric({precision},{scale})"),
            None => name,
        },
        Type::Time | Type::Timetz | Type::Timestamp | Type::Timestamptz => {
            let (first, rest) = name.split_once(' ').unwrap_or((&name, ""));
            format!("{first}({}) {rest}", modifier.0)
        }
        Type::Interval => crate::types::interval::type_name(modifier),
        _ => name,
    }
}
