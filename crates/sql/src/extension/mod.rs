//! The extensions of PostgreSQL that exist here, which `CREATE EXTENSION` installs.
//!
//! ```text
//! uuids     uuid-ossp            trigrams   pg_trgm
//! digests   pgcrypto: digests, random bytes      salts     pgcrypto: hashes of passwords      ciphers   pgcrypto: encryption
//! accents   unaccent
//! ```
//!
//! An extension's functions are code of this crate. Installing it makes a routine of the catalog for each, in the schema that the
//! statement names, whose language is C, as PostgreSQL's are; calls, privileges, `DROP` and dumps treat it as any other routine.
//!
//! # Invariants
//! - A routine names its code by the code's signature, which never changes: stored definitions hold it.

mod accents;
mod ciphers;
mod digests;
mod salts;
mod trigrams;
mod uuids;

use std::sync::LazyLock;

use hashbrown::HashMap;

use crate::functions::Function;
use crate::functions::definition::Definition;

/// An extension that can be installed.
pub(crate) struct Available {
    pub name: &'static str,
    /// The version of PostgreSQL 15.
    pub version: &'static str,
    /// Its comment in `pg_available_extensions`.
    pub comment: &'static str,
    /// True if roles without superuser's rights may install it.
    pub is_trusted: bool,
    /// Its functions.
    functions: &'static [&'static [Definition]],
    /// Its operators, which every schema sees once it is installed.
    operators: &'static [Definition],
}

const fn extension(
    name: &'static str,
    version: &'static str,
    comment: &'static str,
    functions: &'static [&'static [Definition]],
) -> Available {
    Available { name, version, comment, is_trusted: true, functions, operators: &[] }
}

/// Every extension, by name; `plpgsql` is installed in every database.
pub(crate) const AVAILABLE: &[Available] = &[
    extension("btree_gin", "1.3", "support for indexing common datatypes in GIN", &[]),
    extension("btree_gist", "1.7", "support for indexing common datatypes in GiST", &[]),
    Available {
        operators: trigrams::OPERATORS,
        ..extension(
            "pg_trgm",
            "1.6",
            "text similarity measurement and index searching based on trigrams",
            &[trigrams::FUNCTIONS],
        )
    },
    extension(
        "pgcrypto",
        "1.3",
        "cryptographic functions",
        &[digests::FUNCTIONS, salts::FUNCTIONS, ciphers::FUNCTIONS],
    ),
    extension("plpgsql", "1.0", "PL/pgSQL procedural language", &[]),
    Available {
        is_trusted: false,
        ..extension(
            "pg_stat_statements",
            "1.10",
            "track planning and execution statistics of all SQL statements executed",
            &[],
        )
    },
    extension("unaccent", "1.1", "text search dictionary that removes accents", &[accents::FUNCTIONS]),
    extension("uuid-ossp", "1.1", "generate universally unique identifiers (UUIDs)", &[uuids::FUNCTIONS]),
];

/// The functions of an extension, parsed.
struct Parsed {
    /// The functions by the positions of [`AVAILABLE`].
    functions: Vec<Vec<Function>>,
    operators: Vec<Vec<Function>>,
    /// Position of the function of each signature.
    places: HashMap<&'static str, (usize, usize)>,
}

static PARSED: LazyLock<Parsed> = LazyLock::new(|| {
    let parse = |it: &Available| it.functions.iter().copied().flatten().map(|it| it.parse()).collect();
    let functions: Vec<Vec<Function>> = AVAILABLE.iter().map(parse).collect();
    let operators = AVAILABLE.iter().map(|it| it.operators.iter().map(|it| it.parse()).collect()).collect();
    let mut places = HashMap::new();
    for (of, functions) in functions.iter().enumerate() {
        for (at, function) in functions.iter().enumerate() {
            places.insert(function.signature, (of, at));
        }
    }
    Parsed { functions, operators, places }
});

/// The extension with this name.
pub(crate) fn available(name: &str) -> Option<&'static Available> {
    AVAILABLE.iter().find(|it| it.name == name)
}

impl Available {
    /// Its functions.
    pub fn functions(&self) -> &'static [Function] {
        self.place().and_then(|at| PARSED.functions.get(at)).map_or(&[], Vec::as_slice)
    }

    /// Its operators.
    pub fn operators(&self) -> &'static [Function] {
        self.place().and_then(|at| PARSED.operators.get(at)).map_or(&[], Vec::as_slice)
    }

    fn place(&self) -> Option<usize> {
        AVAILABLE.iter().position(|it| it.name == self.name)
    }
}

/// The function that a routine's body names by its signature.
pub(crate) fn function(signature: &str) -> Option<&'static Function> {
    let (of, at) = PARSED.places.get(signature)?;
    PARSED.functions.get(*of)?.get(*at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read_and_name_their_functions() {
        for extension in AVAILABLE {
            for found in extension.functions() {
                assert_eq!(function(found.signature), Some(found));
            }
        }
        let names: Vec<&str> = AVAILABLE.iter().map(|it| it.name).collect();
        assert!(names.contains(&"uuid-ossp") && available("postgis").is_none());
    }
}
