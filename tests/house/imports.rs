//! Imports run one way: which top-level folder of the engine may name which.
//!
//! It reads every path that begins with `crate::` or `super::`, in `use` lines and in the middle of code, groups and
//! all; what `lib.rs` makes public again counts as named where it comes from.

use std::collections::BTreeMap;

use crate::source::{Source, Violation};

/// Each folder (or file) directly in `src/` that is no part of the public face, and what it may name besides itself.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("error", &[]),
    ("diagnostics", &["base", "error"]),
    ("types", &["base", "error"]),
    ("operation", &["types", "error"]),
    ("expression", &["types", "error"]),
    ("storage", &["expression", "operation", "types", "diagnostics", "base", "error"]),
    ("durability", &["storage", "types", "diagnostics", "base", "error"]),
    ("lock", &["diagnostics", "base", "error"]),
    ("protocol", &["lock", "storage", "operation", "types", "diagnostics", "base", "error"]),
    ("schedule", &["storage", "types", "diagnostics", "base", "error"]),
    (
        "pipeline",
        &[
            "schedule",
            "protocol",
            "durability",
            "storage",
            "operation",
            "types",
            "diagnostics",
            "base",
            "error",
        ],
    ),
    ("testing", &["base", "error"]),
];

/// Paths that a folder may not name although it may name what they are in, and why.
const MAY_NOT_NAME: &[(&str, &[&str], &str)] = &[(
    "schedule",
    &["storage", "record"],
    "the schedule places calls by references and footprints only; hand it what it needs as a footprint",
)];

/// Modules that a folder's own tests may also name: they may open a whole database around it.
const PUBLIC_FACE: [&str; 9] =
    ["testing", "database", "options", "procedure", "range", "row", "table", "transaction", "worker"];

/// Every import that goes the wrong way.
pub fn check(sources: &[Source], protocols: &[&str]) -> Vec<Violation> {
    let names = RootNames::of(sources);
    let mut violations = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with("src/")) {
        let module = module_path(&source.path);
        let Some(folder) = module.first() else { continue };
        let tests = source.engine.trim().is_empty();
        let code = if tests { &source.code } else { &source.engine };
        for (at, path) in paths(code, &module) {
            let path = names.resolve(path);
            if let Some(what) = refusal(folder, &path, tests).or_else(|| sibling(&module, &path, protocols)) {
                violations.push(source.violation(at, what));
            }
        }
    }
    violations
}

fn refusal(folder: &str, path: &[String], tests: bool) -> Option<String> {
    // Files directly in `src/` that are not in the table are the public face: they may name everything.
    let (_, allowed) = MAY_NAME.iter().find(|(name, _)| *name == folder)?;
    let named = path.first()?;
    let banned = MAY_NOT_NAME.iter().find(|(name, banned, _)| *name == folder && begins_with(path, banned));
    if let Some((_, _, reason)) = banned {
        return Some(format!("`{folder}` names `{}`: {reason}", path.join("::")));
    }
    if named == folder
        || named == "*"
        || allowed.contains(&named.as_str())
        || tests && PUBLIC_FACE.contains(&named.as_str())
    {
        return None;
    }
    let known = if allowed.is_empty() { "nothing else".to_string() } else { allowed.join(", ") };
    Some(format!(
        "`{folder}` may name {known}, and names `{}`: move what both need down into one of those, or pass it in from \
         above (imports run one way, see ARCHITECTURE.md)",
        path.join("::")
    ))
}

/// No protocol names another, and only `protocol/mod.rs` names any.
fn sibling(module: &[String], path: &[String], protocols: &[&str]) -> Option<String> {
    let named = path.get(1).filter(|_| path[0] == "protocol")?;
    let own = module.get(1);
    let is_list = module.len() == 1 && module[0] == "protocol";
    if is_list || own == Some(named) || !protocols.contains(&named.as_str()) {
        return None;
    }
    Some(format!(
        "`{}` names the protocol `{named}`: what protocols share lies directly in `protocol/`, and nobody but the \
         list in `protocol/mod.rs` knows which there are",
        module.join("::")
    ))
}

fn begins_with(path: &[String], beginning: &[&str]) -> bool {
    path.len() >= beginning.len() && path.iter().zip(beginning).all(|(own, wanted)| own == wanted)
}

/// The module of a file in `src/`; empty for `lib.rs`.
fn module_path(path: &str) -> Vec<String> {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut module: Vec<_> = inside.split('/').map(ToString::to_string).collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib")) {
        module.pop();
    }
    module
}

/// Every path in the code that begins at the crate's root or above the module, from the root on.
fn paths(code: &str, module: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for at in Source::words(code, "crate::") {
        let mut here = Vec::new();
        expand(code, at + "crate::".len(), Vec::new(), &mut here);
        found.extend(here.into_iter().map(|path| (at, path)));
    }
    for at in Source::words(code, "super::") {
        if code[..at].ends_with("super::") {
            continue;
        }
        let mut here = Vec::new();
        expand(code, at, Vec::new(), &mut here);
        for path in here {
            let above = path.iter().take_while(|part| *part == "super").count();
            let from = &module[..module.len().saturating_sub(above)];
            found.push((at, from.iter().chain(&path[above..]).cloned().collect()));
        }
    }
    found
}

/// Follows a path, and every branch of its groups; gives back where it ends.
fn expand(code: &str, mut at: usize, mut path: Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    loop {
        at = skip_space(code, at);
        if code[at..].starts_with('{') {
            return expand_group(code, at + 1, &path, found);
        }
        let length = name_length(&code[at..]);
        path.push(if length == 0 { "*".to_string() } else { code[at..at + length].to_string() });
        at += length;
        let next = skip_space(code, at);
        if length == 0 || !code[next..].starts_with("::") {
            found.push(path);
            return at;
        }
        at = next + 2;
    }
}

fn expand_group(code: &str, mut at: usize, path: &[String], found: &mut Vec<Vec<String>>) -> usize {
    loop {
        at = skip_space(code, at);
        if code[at..].starts_with('}') {
            return at + 1;
        }
        at = expand(code, at, path.to_vec(), found);
        match code[at..].find([',', '}']) {
            Some(end) if code[at + end..].starts_with(',') => at += end + 1,
            Some(end) => return at + end + 1,
            None => return code.len(),
        }
    }
}

fn skip_space(code: &str, at: usize) -> usize {
    at + (code[at..].len() - code[at..].trim_start().len())
}

fn name_length(code: &str) -> usize {
    code.bytes().take_while(|&byte| byte == b'_' || byte.is_ascii_alphanumeric()).count()
}

/// Names at the crate's root that are no modules: each with its origin.
struct RootNames {
    origin: BTreeMap<String, Vec<String>>,
}

impl RootNames {
    fn of(sources: &[Source]) -> RootNames {
        let mut origin = BTreeMap::new();
        for source in sources.iter().filter(|source| source.path.starts_with("src/")) {
            for at in Source::words(&source.engine, "macro_rules! ") {
                let rest = &source.engine[at + "macro_rules! ".len()..];
                origin.insert(rest[..name_length(rest)].to_string(), module_path(&source.path));
            }
            if source.path == "src/lib.rs" {
                for at in Source::words(&source.engine, "use ") {
                    let mut public = Vec::new();
                    expand(&source.engine, at + "use ".len(), Vec::new(), &mut public);
                    for path in public {
                        let path: Vec<_> = path.into_iter().filter(|part| part != "crate").collect();
                        origin.insert(path.last().cloned().unwrap_or_default(), path);
                    }
                }
            }
        }
        RootNames { origin }
    }

    fn resolve(&self, path: Vec<String>) -> Vec<String> {
        match self.origin.get(path.first().map_or("", String::as_str)) {
            Some(origin) if path.len() == 1 || path[0].starts_with(char::is_uppercase) => origin.clone(),
            _ => path,
        }
    }
}

mod canaries {
    use super::*;
    use crate::source::prepare;

    const LIB: &str = "pub use error::{Error, Result};\npub use protocol::{Kind, Variant as V};\n";

    fn caught(path: &str, code: &str) -> Vec<String> {
        let files = vec![("src/lib.rs", LIB), (path, code)];
        let files = files.into_iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        check(&prepare(files), &["serial", "optimistic"])
            .into_iter()
            .map(|violation| violation.what)
            .collect()
    }

    #[test]
    fn wrong_ways_are_caught() {
        for (path, code) in [
            ("src/base/a.rs", "use crate::error::Error;"),
            ("src/base/a.rs", "use crate::Error;"),
            ("src/error.rs", "use crate::types::Value;"),
            ("src/types/a.rs", "use crate::storage::row::Row;"),
            ("src/operation/a.rs", "use crate::base::atomics;"),
            ("src/storage/a.rs", "use crate::protocol::Kind;"),
            ("src/storage/a.rs", "use crate::{error::Error, protocol::{self, Kind}};"),
            ("src/storage/a.rs", "use crate::Kind;"),
            ("src/storage/index/hash/a.rs", "use super::super::super::super::durability::Log;"),
            ("src/storage/a.rs", "fn a() { crate::pipeline::start() }"),
            ("src/durability/mod.rs", "use super::protocol::Kind;"),
            ("src/protocol/a.rs", "use crate::durability::Log;"),
            ("src/protocol/a.rs", "use crate::database::Database;"),
            ("src/schedule/a.rs", "use crate::protocol::Kind;"),
            ("src/schedule/a.rs", "use crate::storage::record::Record;"),
            ("src/pipeline/a.rs", "use crate::database::Database;"),
            ("src/pipeline/a.rs", "use crate::testing::Disk;"),
        ] {
            assert!(!caught(path, code).is_empty(), "{path}: {code}");
        }
    }

    #[test]
    fn right_ways_are_not() {
        for (path, code) in [
            (
                "src/storage/a.rs",
                "use crate::{error::Error, types::{Value, ValueRef as V},};\nuse super::word::Stamp;",
            ),
            ("src/storage/a.rs", "// use crate::protocol::Kind;\nconst A: &str = \"crate::protocol\";"),
            ("src/storage/a.rs", "#[cfg(test)]\nmod tests { use crate::testing::Disk; }"),
            ("src/pipeline/a.rs", "use crate::protocol::attempt::Attempt; use crate::Result;"),
            ("src/database.rs", "use crate::pipeline::Engine; use crate::testing::Disk; use crate::Variant;"),
            ("src/protocol/mod.rs", "mod serial; use crate::protocol::serial::Serial;"),
            (
                "src/protocol/serial/mod.rs",
                "use super::attempt::Attempt; use super::serial::site; use crate::Kind;",
            ),
        ] {
            assert_eq!(caught(path, code), Vec::<String>::new(), "{path}: {code}");
        }
    }

    #[test]
    fn protocols_do_not_know_each_other() {
        for (path, code) in [
            ("src/protocol/optimistic/mod.rs", "use super::serial::Site;"),
            ("src/protocol/optimistic/commit.rs", "use super::super::serial::Site;"),
            ("src/protocol/attempt/mod.rs", "use crate::protocol::serial::Site;"),
            ("src/pipeline/a.rs", "use crate::protocol::serial::Site;"),
            ("src/database.rs", "use crate::protocol::{attempt::Attempt, serial::Site};"),
        ] {
            assert_eq!(caught(path, code).len(), 1, "{path}: {code}");
        }
    }
}
