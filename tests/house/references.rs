//! References of the documents: the files and the names of Rust that they mention exist in the repository.
//!
//! Only what is in backquotes counts, outside of fences. A path that begins with a folder of the root is from the root
//! (`tests` may be a crate's); any other one that ends in `.rs` is the end of some file's path, since documents name files
//! relative to the folder that they speak of. Of a name of Rust (`Database::open`) each part is an identifier of the sources.
//!
//! Links are held by [`documents::dead_links`](crate::documents::dead_links).

use std::collections::BTreeSet;
use std::path::Path;

use crate::language::identifiers;
use crate::source::{Source, Violation};

/// Folders of the root whose files documents name.
pub const ROOTS: &[&str] =
    &["src", "crates", "tests", "benches", "docs", "examples", "fuzz", "packaging", ".ci"];

/// Crates whose names are not in the sources of this repository.
const FOREIGN: &[&str] = &["std", "core"];

/// The index of the decisions.
pub const DECISIONS: &str = "docs/decisions/README.md";

/// Names that documents may mention: files and folders, and identifiers of the sources.
pub struct Known {
    paths: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Known {
    /// The content of these files, from the root, and of these sources.
    pub fn of(files: &[String], sources: &[Source]) -> Known {
        let ancestors = files.iter().flat_map(|file| Path::new(file).ancestors());
        let names = sources.iter().flat_map(|source| identifiers(&source.code));
        Known {
            paths: ancestors.map(|path| path.to_string_lossy().into_owned()).collect(),
            names: names.map(|(_, name)| name.to_string()).collect(),
        }
    }

    /// Returns true if a path that a document names exists.
    fn has_path(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let is_relative = !is_from_root(path) || path.starts_with("tests/");
        let end = format!("/{path}");
        self.paths.contains(path) || is_relative && self.paths.iter().any(|known| known.ends_with(&end))
    }
}

/// Files and names of Rust that a document mentions, and that do not exist.
pub fn dead_references(known: &Known, path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut violation = |line: usize, what: String| {
        violations.push(Violation { path: path.to_string(), line: line + 1, what });
    };
    for (line, content) in unfenced(text) {
        for span in content.split('`').skip(1).step_by(2) {
            if is_path(span) && !known.has_path(span) {
                violation(
                    line,
                    format!("`{span}` is no file or folder of the repository: name the one that is"),
                );
            }
            let missing = name_parts(span).into_iter().find(|part| !known.names.contains(*part));
            if let Some(part) = missing {
                violation(line, format!("`{span}`: nothing in the sources has the name {part:?}"));
            }
        }
    }
    violations
}

/// Decisions that the index does not list.
pub fn decisions_not_in_index(files: &[String], index: &str) -> Vec<Violation> {
    let decisions = files.iter().filter_map(|file| {
        let name = file.strip_prefix("docs/decisions/")?;
        (name.ends_with(".md") && file.as_str() != DECISIONS).then_some(name)
    });
    let missing = decisions.filter(|name| !index.contains(&format!("({name})")));
    missing
        .map(|name| Violation {
            path: DECISIONS.to_string(),
            line: 1,
            what: format!("{name} is not listed: give it a line under its subject"),
        })
        .collect()
}

/// The lines of a document outside of its fences, with their numbers from 0.
fn unfenced(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fence && !is_fenced
    })
}

/// Returns true if a piece of text in backquotes names a file or a folder of the repository.
fn is_path(span: &str) -> bool {
    let is_of_path =
        |character: char| character.is_ascii_alphanumeric() || ['_', '.', '-', '/'].contains(&character);
    let names_file = span.ends_with(".rs") && span != ".rs";
    !span.starts_with('/')
        && span.chars().all(is_of_path)
        && (names_file || is_from_root(span) && span.contains('/'))
}

fn is_from_root(path: &str) -> bool {
    path.split('/').next().is_some_and(|first| ROOTS.contains(&first))
}

/// The parts of a name of Rust of at least two parts, without arguments; none if it is anything else.
fn name_parts(span: &str) -> Vec<&str> {
    let name = span.split(['(', '<', '!']).next().unwrap_or_default();
    let parts: Vec<_> = name.split("::").collect();
    let is_name = |part: &&str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
    };
    // A cast of SQL (`a::int`) has no capital.
    let has_capital = parts.iter().any(|part| part.starts_with(char::is_uppercase));
    let is_ours = parts.len() > 1 && has_capital && parts.iter().all(is_name) && !FOREIGN.contains(&parts[0]);
    if is_ours { parts } else { Vec::new() }
}

mod canaries {
    use super::*;
    use crate::source::prepare;

    fn known() -> Known {
        let files = ["src/lock/detector.rs", "crates/sql/tests/functions.rs", "docs/sql.md"];
        let sources = prepare(vec![(
            "src/lock/detector.rs".to_string(),
            "//! A.\nstruct Detector;\nimpl Detector { fn search() {} }\n// gone\n".to_string(),
        )]);
        Known::of(&files.map(String::from), &sources)
    }

    #[test]
    fn files_that_do_not_exist_are_caught() {
        for (text, count) in [
            ("`src/lock/detector.rs`, `src/lock/`, `docs/sql.md`", 0),
            ("`lock/detector.rs` and `detector.rs`", 0),
            ("`src/lock/searcher.rs`", 1),
            ("`src/detector.rs` is not from the root", 1),
            ("`searcher.rs` or `detector.rs`", 1),
            ("`tector.rs` is no whole name", 1),
            ("`tests/functions.rs` of a crate", 0),
            ("`docs/sql`", 1),
            ("`target/release/heddle`, `/src/metrics`, `src/*.rs`, `select a/b`, `src`", 0),
            ("```text\n`src/gone.rs`\n```", 0),
            ("```text\n```\n`src/gone.rs`", 1),
        ] {
            assert_eq!(dead_references(&known(), "docs/a.md", text).len(), count, "{text}");
        }
    }

    #[test]
    fn names_that_do_not_exist_are_caught() {
        for (text, count) in [
            ("`Detector::search(..)`, `Detector::search`", 0),
            ("`Detector::find`", 1),
            ("`Finder::search()`", 1),
            ("`Detector::gone` is in a comment only", 1),
            ("`std::sync::Mpmc`, `select A::text`, `'x'::date`, `total::money`", 0),
        ] {
            assert_eq!(dead_references(&known(), "docs/a.md", text).len(), count, "{text}");
        }
    }

    #[test]
    fn decisions_that_the_index_leaves_out_are_caught() {
        let files = ["docs/decisions/README.md", "docs/decisions/2026-a.md", "docs/decisions/2026-b.md"];
        let found = decisions_not_in_index(&files.map(String::from), "- [A](2026-a.md)\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].what.starts_with("2026-b.md"), "{}", found[0].what);
    }
}
