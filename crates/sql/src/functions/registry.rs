//! All functions and operators by name.
//!
//! The tables are constants of the modules that implement them; they are parsed and indexed once, when the first name is
//! looked up.

use std::sync::LazyLock;

use hashbrown::HashMap;

use super::definition::{Definition, Function};
use crate::catalog::system::functions as system;

/// The tables of functions.
const FUNCTIONS: &[&[&[Definition]]] = &[
    super::aggregates::TABLES,
    super::strings::FUNCTIONS,
    super::moments::FUNCTIONS,
    super::json::FUNCTIONS,
    &[super::arrays::FUNCTIONS, super::array_parts::FUNCTIONS, super::bits::FUNCTIONS],
    &[
        system::OBJECTS,
        system::SESSION,
        crate::catalog::system::monitoring::MONITORING,
        crate::catalog::system::privileges::PRIVILEGES,
        crate::catalog::system::splitting::SPLITTING,
    ],
    &[
        super::arithmetic::FUNCTIONS,
        super::larger_smaller::FUNCTIONS,
        super::mathematics::FUNCTIONS,
        super::network::FUNCTIONS,
        super::number_format::FUNCTIONS,
        super::advisory::FUNCTIONS,
        super::send::FUNCTIONS,
        super::session::FUNCTIONS,
        super::sets::SETS,
        super::sundry::CURRENT,
        super::sundry::FUNCTIONS,
        super::top_k::FUNCTIONS,
        super::windows::WINDOWS,
    ],
];
/// The tables of operators.
const OPERATORS: &[&[&[Definition]]] = &[
    super::strings::OPERATORS,
    super::json::OPERATORS,
    &[super::arrays::OPERATORS, super::bits::OPERATORS],
    &[
        super::arithmetic::INTEGERS,
        super::arithmetic::NUMBERS,
        super::comparison::OPERATORS,
        super::comparison::TRANSACTION_IDS,
        super::mathematics::OPERATORS,
        super::network::OPERATORS,
        super::moments::arithmetic::OPERATORS,
    ],
];

struct Registry {
    all: Vec<Function>,
    by_name: HashMap<&'static str, Vec<usize>>,
}

impl Registry {
    fn of(tables: &[&[&[Definition]]]) -> Registry {
        let all: Vec<Function> =
            tables.iter().copied().flatten().copied().flatten().map(|it| it.parse()).collect();
        let mut by_name: HashMap<&'static str, Vec<usize>> = HashMap::new();
        for (at, function) in all.iter().enumerate() {
            by_name.entry(function.name).or_default().push(at);
        }
        Registry { all, by_name }
    }

    fn named(&'static self, name: &str) -> impl Iterator<Item = &'static Function> + use<> {
        let found = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        found.iter().map(|&at| &self.all[at])
    }
}

static ALL_FUNCTIONS: LazyLock<Registry> = LazyLock::new(|| Registry::of(FUNCTIONS));
static ALL_OPERATORS: LazyLock<Registry> = LazyLock::new(|| Registry::of(OPERATORS));

/// The functions with this name.
pub fn functions_named(name: &str) -> impl Iterator<Item = &'static Function> + use<> {
    ALL_FUNCTIONS.named(name)
}

/// The operators with this symbol: prefix ones have one argument.
pub fn operators_named(symbol: &str) -> impl Iterator<Item = &'static Function> + use<> {
    ALL_OPERATORS.named(symbol)
}

/// Every function.
pub fn all_functions() -> &'static [Function] {
    &ALL_FUNCTIONS.all
}

/// Every operator.
pub fn all_operators() -> &'static [Function] {
    &ALL_OPERATORS.all
}
