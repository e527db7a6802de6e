//! `jsonpath`: the path language of SQL/JSON, as a tree.
//!
//! ```text
//! lexer   the tokens of a text        parse   tokens to a tree        print   a tree as PostgreSQL prints it
//! ```
//!
//! A value of the type is its printed text, which every evaluation reads again through [`compiled`]; trees are kept for
//! each thread.
//!
//! Invariants: `@` is only inside of filters and `last` only inside of subscripts; the nesting of a tree is bounded
//! ([`DEPTH_MAX`]), because trees are walked by recursion.
//!
//! Source: PostgreSQL 15, `jsonpath.c`, `jsonpath_gram.y` and `jsonpath_scan.l`.

mod lexer;
mod parse;
mod print;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::error::Result;
use crate::types::numeric::Numeric;

pub use parse::parse_jsonpath;

/// Maximum nesting depth of a path.
pub const DEPTH_MAX: usize = 200;
/// Maximum number of trees that a thread keeps.
const KEPT_PATHS_MAX: usize = 128;

/// A path with its mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Strict: structural errors are errors, and arrays are not unwrapped.
    pub is_strict: bool,
    /// The path itself.
    pub root: Node,
}

/// An expression: where it starts, and the accessors that follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The start.
    pub start: Start,
    /// What is applied to each item of the start, one after the other.
    pub steps: Vec<Step>,
}

/// The start of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Numeric),
    /// A string.
    Text(Arc<str>),
    /// `$name`
    Variable(Arc<str>),
    /// An arithmetic operator between two expressions.
    Arithmetic(Arithmetic, Box<Node>, Box<Node>),
    /// `+` or `-` before an expression.
    Sign {
        /// True for `-`.
        is_minus: bool,
        /// The expression.
        operand: Box<Node>,
    },
    /// A condition, whose value is true, false or null.
    Condition(Box<Condition>),
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// `&&`
    And(Box<Condition>, Box<Condition>),
    /// `||`
    Or(Box<Condition>, Box<Condition>),
    /// `!(…)`
    Not(Box<Condition>),
    /// `(…) is unknown`
    IsUnknown(Box<Condition>),
    /// A comparison.
    Compare(Comparison, Node, Node),
    /// `… starts with …`
    StartsWith(Node, Node),
    /// `… like_regex "…"`
    LikeRegex(Node, Arc<str>, RegexFlags),
    /// `exists (…)`
    Exists(Node),
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=` or `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// The flags of `like_regex`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegexFlags {
    /// `i`
    pub ignores_case: bool,
    /// `s`: `.` matches a newline.
    pub dot_is_all: bool,
    /// `m`: `^` and `$` match at newlines.
    pub has_lines: bool,
    /// `q`: the pattern is a literal.
    pub is_literal: bool,
}

/// An accessor.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `.key`
    Member(Arc<str>),
    /// `.*`
    AnyMember,
    /// `[…]`: indexes, and ranges of them.
    Elements(Vec<(Node, Option<Node>)>),
    /// `[*]`
    AnyElement,
    /// `.**{first to last}`
    Anywhere {
        /// The first level; `None`: the last one of all, where scalars are.
        first: Option<u32>,
        /// The last level; `None`: no bound.
        last: Option<u32>,
    },
    /// `?(…)`
    Filter(Condition),
    /// `.method()`
    Method(Method),
    /// `.datetime()`, with its template.
    Datetime(Option<Arc<str>>),
}

/// A method without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `abs()`
    Abs,
    /// `size()`
    Size,
    /// `type()`
    Type,
    /// `floor()`
    Floor,
    /// `double()`
    Double,
    /// `ceiling()`
    Ceiling,
    /// `keyvalue()`
    KeyValue,
}

impl Method {
    /// All methods with their names.
    pub const ALL: [(&'static str, Method); 7] = [
        ("abs", Method::Abs),
        ("size", Method::Size),
        ("type", Method::Type),
        ("floor", Method::Floor),
        ("double", Method::Double),
        ("ceiling", Method::Ceiling),
        ("keyvalue", Method::KeyValue),
    ];

    /// The method's name.
    pub fn name(self) -> &'static str {
        Method::ALL.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name)
    }
}

impl Arithmetic {
    /// The operator's symbol.
    pub fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Remainder => "%",
        }
    }
}

impl Comparison {
    /// The operator's symbol, as it is printed.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

thread_local! {
    static KEPT: RefCell<HashMap<String, Rc<Path>>> = RefCell::new(HashMap::new());
}

/// The tree of a path's text.
///
/// # Errors
/// 42601 if it is none.
pub fn compiled(text: &str) -> Result<Rc<Path>> {
    if let Some(known) = KEPT.with_borrow(|kept| kept.get(text).cloned()) {
        return Ok(known);
    }
    let made = Rc::new(parse_jsonpath(text)?);
    KEPT.with_borrow_mut(|kept| {
        if kept.len() >= KEPT_PATHS_MAX {
            kept.clear();
        }
        kept.insert(text.to_string(), made.clone());
    });
    Ok(made)
}
