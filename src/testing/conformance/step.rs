//! Steps: the words of the scripts, each one access of a transaction, or its end.
//!
//! A step is written as it is read; what it answers is a word too (`5`, `none`, `ok`, `duplicate`), so that a script,
//! the model and the engine can be compared by their texts. Keys are single letters, in the order of the alphabet.

use std::fmt;

/// A key: `a` is 1, `z` is 26.
pub type Key = i64;

/// A column that a step can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// An integer, never NULL.
    N,
    /// An integer or NULL, with an index if the table is `indexed`.
    Tag,
    /// An integer or NULL, with a unique index if the table is `indexed`.
    Code,
    /// An ordered tuple; 0:0 at first.
    Best,
    /// The two greatest entries; none at first.
    Top,
}

impl Column {
    const ALL: [Column; 5] = [Column::N, Column::Tag, Column::Code, Column::Best, Column::Top];

    /// Its name, in scripts and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Column::N => "n",
            Column::Tag => "tag",
            Column::Code => "code",
            Column::Best => "best",
            Column::Top => "top",
        }
    }
}

/// A commutative operation on a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Add,
    Max,
    Min,
}

/// The range of a scan, of keys or of an index's values: from `from` on, and up to but not with `to`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub from: Option<i64>,
    pub to: Option<i64>,
    pub backward: bool,
    pub limit: Option<usize>,
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `get x [column]`: the value, or `none` where there is no row.
    Get(Key, Column),
    /// `exists x`: `yes` or `no`.
    Exists(Key),
    /// `insert x n [tag=v] [code=v]`: `ok` or `duplicate`.
    Insert { key: Key, n: i64, tag: Option<i64>, code: Option<i64> },
    /// `set x [column] value`: `ok`, `missing` or `duplicate`.
    Set(Key, Column, Option<i64>),
    /// `delete x`: `yes` or `no`.
    Delete(Key),
    /// `add x [column] value`, and `max`, `min`: `ok`, `missing` or `duplicate`.
    Operate(Operation, Key, Column, i64),
    /// `put x order payload`: an ordered put into `best`.
    Put(Key, i64, i64),
    /// `top x order payload`: a top-K insert into `top`.
    Top(Key, i64, i64),
    /// `scan [a..f] [reverse] [limit 2]`: `a=1 b=2`, or `empty`.
    Scan(Span),
    /// `index tag|code [1..5] [reverse] [limit 2]`: the rows in the index's order.
    Index(Column, Span),
    /// `save s`: a savepoint.
    Save(char),
    /// `back s`: back to it.
    Back(char),
    /// `nested`: a transaction inside the transaction.
    Nested,
    /// `fail`: the body returns an error of its own.
    Fail,
    /// `panic`: the body panics.
    Panic,
    /// `commit`: the body returns.
    Commit,
}

impl Step {
    /// Returns true if the transaction ends with it.
    pub fn is_end(&self) -> bool {
        matches!(self, Step::Fail | Step::Panic | Step::Commit)
    }

    /// The key that it names.
    pub fn key(&self) -> Option<Key> {
        match *self {
            Step::Get(key, _)
            | Step::Exists(key)
            | Step::Insert { key, .. }
            | Step::Set(key, ..)
            | Step::Delete(key)
            | Step::Operate(_, key, ..)
            | Step::Put(key, ..)
            | Step::Top(key, ..) => Some(key),
            _ => None,
        }
    }

    /// Returns true if it reads a range of keys or of an index.
    pub fn is_scan(&self) -> bool {
        matches!(self, Step::Scan(_) | Step::Index(..))
    }

    /// Returns true if it is an operation that reads nothing.
    pub fn commutes(&self) -> bool {
        matches!(self, Step::Operate(..) | Step::Put(..) | Step::Top(..))
    }

    /// Returns true if it only reads.
    pub fn only_reads(&self) -> bool {
        self.key().is_none() || matches!(self, Step::Get(..) | Step::Exists(_))
    }

    /// Reads a step.
    ///
    /// # Errors
    /// The mistake in the step.
    pub fn parse(text: &str) -> Result<Step, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (&name, rest) = words.split_first().ok_or("a step is missing")?;
        parse_step(name, rest).ok_or_else(|| format!("{text:?} is no step"))
    }
}

fn parse_step(name: &str, rest: &[&str]) -> Option<Step> {
    Some(match (name, rest) {
        ("get", [key]) => Step::Get(key_of(key)?, Column::N),
        ("get", [key, column]) => Step::Get(key_of(key)?, column_of(column)?),
        ("exists", [key]) => Step::Exists(key_of(key)?),
        ("insert", [key, n, more @ ..]) => {
            let (mut tag, mut code) = (None, None);
            for word in more {
                let (name, value) = word.split_once('=')?;
                let place = match column_of(name)? {
                    Column::Tag => &mut tag,
                    Column::Code => &mut code,
                    _ => return None,
                };
                *place = Some(value.parse().ok()?);
            }
            Step::Insert { key: key_of(key)?, n: n.parse().ok()?, tag, code }
        }
        ("set", [key, value]) => Step::Set(key_of(key)?, Column::N, Some(value.parse().ok()?)),
        ("set", [key, column, "null"]) => Step::Set(key_of(key)?, column_of(column)?, None),
        ("set", [key, column, value]) => {
            Step::Set(key_of(key)?, column_of(column)?, Some(value.parse().ok()?))
        }
        ("delete", [key]) => Step::Delete(key_of(key)?),
        ("add" | "max" | "min", [key, rest @ ..]) => {
            let operation = match name {
                "add" => Operation::Add,
                "max" => Operation::Max,
                _ => Operation::Min,
            };
            let (column, value) = match rest {
                [value] => (Column::N, value),
                [column, value] => (column_of(column)?, value),
                _ => return None,
            };
            Step::Operate(operation, key_of(key)?, column, value.parse().ok()?)
        }
        ("put", [key, order, payload]) => Step::Put(key_of(key)?, order.parse().ok()?, payload.parse().ok()?),
        ("top", [key, order, payload]) => Step::Top(key_of(key)?, order.parse().ok()?, payload.parse().ok()?),
        ("scan", rest) => Step::Scan(span_of(rest, key_of)?),
        ("index", [column, rest @ ..]) => {
            Step::Index(column_of(column)?, span_of(rest, |text| text.parse().ok())?)
        }
        ("save", [name]) => Step::Save(name.chars().next()?),
        ("back", [name]) => Step::Back(name.chars().next()?),
        ("nested", []) => Step::Nested,
        ("fail", []) => Step::Fail,
        ("panic", []) => Step::Panic,
        ("commit", []) => Step::Commit,
        _ => return None,
    })
}

fn key_of(text: &str) -> Option<Key> {
    match text.as_bytes() {
        [letter @ b'a'..=b'z'] => Some(i64::from(letter - b'a' + 1)),
        _ => None,
    }
}

/// A key's letter.
pub fn letter(key: Key) -> char {
    char::from(b'a' + (key - 1) as u8)
}

fn column_of(text: &str) -> Option<Column> {
    Column::ALL.into_iter().find(|column| column.name() == text)
}

fn span_of(words: &[&str], bound: impl Fn(&str) -> Option<i64>) -> Option<Span> {
    let mut span = Span::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "reverse" => span.backward = true,
            "limit" => span.limit = Some(words.next()?.parse().ok()?),
            range => {
                let (from, to) = range.split_once("..")?;
                let end = |text: &str| if text.is_empty() { Some(None) } else { bound(text).map(Some) };
                (span.from, span.to) = (end(from)?, end(to)?);
            }
        }
    }
    Some(span)
}

impl fmt::Display for Step {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<i64>| value.map_or("null".to_string(), |value| value.to_string());
        match self {
            Step::Get(key, column) => write!(into, "get {} {}", letter(*key), column.name()),
            Step::Exists(key) => write!(into, "exists {}", letter(*key)),
            Step::Insert { key, n, tag, code } => {
                write!(into, "insert {} {n}", letter(*key))?;
                for (name, value) in [("tag", tag), ("code", code)] {
                    value.iter().try_for_each(|value| write!(into, " {name}={value}"))?;
                }
                Ok(())
            }
            Step::Set(key, column, to) => {
                write!(into, "set {} {} {}", letter(*key), column.name(), value(to))
            }
            Step::Delete(key) => write!(into, "delete {}", letter(*key)),
            Step::Operate(operation, key, column, operand) => {
                let name = format!("{operation:?}").to_lowercase();
                write!(into, "{name} {} {} {operand}", letter(*key), column.name())
            }
            Step::Put(key, order, payload) => write!(into, "put {} {order} {payload}", letter(*key)),
            Step::Top(key, order, payload) => write!(into, "top {} {order} {payload}", letter(*key)),
            Step::Scan(span) => {
                write!(into, "scan")?;
                span.write(into, |key| letter(key).to_string())
            }
            Step::Index(column, span) => {
                write!(into, "index {}", column.name())?;
                span.write(into, |value| value.to_string())
            }
            Step::Save(name) => write!(into, "save {name}"),
            Step::Back(name) => write!(into, "back {name}"),
            Step::Nested => write!(into, "nested"),
            Step::Fail => write!(into, "fail"),
            Step::Panic => write!(into, "panic"),
            Step::Commit => write!(into, "commit"),
        }
    }
}

impl Span {
    /// Returns true if a value is in it; a limit is ignored.
    pub fn contains(&self, value: i64) -> bool {
        self.from.is_none_or(|from| from <= value) && self.to.is_none_or(|to| value < to)
    }

    fn write(&self, into: &mut fmt::Formatter<'_>, bound: impl Fn(i64) -> String) -> fmt::Result {
        if (self.from, self.to) != (None, None) {
            let end = |end: Option<i64>| end.map_or(String::new(), &bound);
            write!(into, " {}..{}", end(self.from), end(self.to))?;
        }
        if self.backward {
            write!(into, " reverse")?;
        }
        self.limit.iter().try_for_each(|limit| write!(into, " limit {limit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_read_as_it_is_written() {
        for text in [
            "get x n",
            "get a top",
            "exists z",
            "insert x 5",
            "insert x -5 tag=2 code=-7",
            "set x n 4",
            "set x tag null",
            "delete b",
            "add x n -3",
            "max x tag 9",
            "min x code 0",
            "put x 1 2",
            "top x -1 2",
            "scan",
            "scan a..f",
            "scan ..f reverse limit 2",
            "index tag 1..5 limit 1",
            "index code reverse",
            "save s",
            "back s",
            "nested",
            "fail",
            "panic",
            "commit",
        ] {
            assert_eq!(Step::parse(text).map(|step| step.to_string()), Ok(text.to_string()));
        }
        assert_eq!(Step::parse("get x"), Ok(Step::Get(24, Column::N)));
        assert_eq!(Step::parse("add x 3"), Ok(Step::Operate(Operation::Add, 24, Column::N, 3)));
    }

    #[test]
    fn what_is_no_step_is_refused() {
        for text in [
            "",
            "jump x",
            "get",
            "get xy",
            "get X",
            "get x m",
            "insert x",
            "insert x 1 n=2",
            "add x",
            "scan a-b",
        ] {
            Step::parse(text).expect_err(text);
        }
    }

    #[test]
    fn a_span_ends_before_its_end() {
        let span = Span { from: Some(2), to: Some(4), ..Span::default() };
        let inside: Vec<_> = (0..6).filter(|value| span.contains(*value)).collect();
        assert_eq!(inside, [2, 3]);
        assert!(Span::default().contains(i64::MIN));
    }
}
