//! Rules about single lines and files: what may stand where.

use crate::source::{Source, Violation};

/// The most lines of a file, tests included.
const LINES_MAX: usize = 800;
/// The most lines of a function.
const FUNCTION_LINES_MAX: usize = 70;
/// A test may tell one story to its end.
const TEST_LINES_MAX: usize = 90;

/// The places where `unsafe` may be, and the reason for each. A folder ends with a slash.
const UNSAFE_PLACES: &[(&str, &str)] = &[
    (
        "src/diagnostics/activity.rs",
        "a thread that is watched knows its worker context's word, which is borrowed meanwhile",
    ),
    ("src/base/prefetch.rs", "asking for a cache line is an instruction of the processor's"),
    ("src/base/large_pages.rs", "a hint about memory takes an address"),
    ("src/storage/", "records, rows and indexes are shared memory that no lock guards; epochs keep it alive"),
    (
        "src/pipeline/standby/rows.rs",
        "rows that replay changes are copies in the attempt's arena, blocks included",
    ),
    ("src/protocol/attempt/mod.rs", "a table outlives the attempt, which borrows its store"),
    (
        "src/protocol/attempt/scan.rs",
        "records on a scan's page are pinned; the row decoder reads their blocks",
    ),
    ("src/protocol/attempt/foreign_keys", "foreign keys read rows that the attempt has copied or pinned"),
    ("src/protocol/attempt/constraints.rs", "checks read rows that the attempt has copied or pinned"),
    ("src/protocol/attempt/session/carry.rs", "keys of records that the attempt has written, and pinned"),
    ("src/protocol/attempt/write.rs", "the row decoder reads blocks of rows that the attempt has pinned"),
    (
        "src/protocol/phased/mod.rs",
        "keys of records that a commit has met are reported while they are pinned",
    ),
    (
        "src/pipeline/log",
        "the log stage empties slices of sealed epochs, and opens the gate that it has closed",
    ),
    (
        "src/pipeline/protocol_change.rs",
        "the thread that changes the protocol opens the gate that it has closed",
    ),
    (
        "src/protocol/serial/partition.rs",
        "a raw shared/exclusive lock, released later by the thread that acquired it",
    ),
    (
        "src/procedure/run.rs",
        "records that were found before the bodies run are kept as addresses, and pinned",
    ),
    (
        "src/procedure/one_body.rs",
        "a closure that a caller lends for as long as it waits runs on another thread",
    ),
    ("src/procedure/parts.rs", "as in run.rs, where a call's actions run one by one"),
    (
        "src/protocol/partitioned/mod.rs",
        "keys of records that a closure writes are locked while they are pinned",
    ),
    ("src/check.rs", "it decodes rows that it has just copied from records, while it is pinned"),
    ("src/row.rs", "a row's words may be addresses of blocks, which live as long as the row"),
];

/// Words that the engine must not contain outside of tests, the places where they are allowed, and their
/// replacement.
struct Banned {
    words: &'static [&'static str],
    but_in: &'static [&'static str],
    instead: &'static str,
}

const BANNED: &[Banned] = &[
    Banned {
        words: &["thread::spawn", "thread::Builder", "thread::scope"],
        but_in: &["src/pipeline/"],
        instead: "threads are started in src/pipeline/ only, so that one place knows every thread: start it there",
    },
    Banned {
        words: &[".unwrap()", ".expect(", ".unwrap_err()", ".expect_err("],
        but_in: &[],
        instead: "what input or disk can cause is an error, not a panic: use `?`, a default or a `let … else`; what \
                  cannot happen is said with `unreachable!` and its reason",
    },
    Banned {
        words: &["todo!", "unimplemented!", "dbg!", "println!", "eprintln!"],
        but_in: &[],
        instead: "nothing unfinished and no output of its own goes into the engine: finish it, or leave it out",
    },
    Banned {
        words: &["sync::atomic"],
        but_in: &["src/base/atomics.rs"],
        instead: "take atomics from `crate::base::atomics`, so that a model checker's can take their place",
    },
    Banned {
        words: &["std::fs", "fs::File"],
        but_in: &["src/base/disk/", "src/base/socket.rs"],
        instead: "files are reached through `crate::base::disk` only, so that the simulated disk sees every access",
    },
    Banned {
        words: &["unix::net", "std::net"],
        but_in: &["src/base/socket.rs"],
        instead: "sockets are reached through `crate::base::socket` only, so that connections are accepted in one place",
    },
];

/// `unsafe` where it has no business.
pub fn unsafe_places(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in engine(sources)
        .filter(|source| !UNSAFE_PLACES.iter().any(|(place, _)| source.path.starts_with(place)))
    {
        for at in Source::words(&source.engine, "unsafe") {
            violations.push(source.violation(
                at,
                "`unsafe` stands only where tests/house/rules.rs lists it: find a safe way, or add the file there with \
                 the reason",
            ));
        }
    }
    violations
}

/// Places in the list of [`UNSAFE_PLACES`] that have no `unsafe` any more.
pub fn places_without_unsafe(sources: &[Source]) -> Vec<&'static str> {
    let has_unsafe = |place: &str| {
        engine(sources)
            .filter(|source| source.path.starts_with(place))
            .any(|source| Source::words(&source.engine, "unsafe").next().is_some())
    };
    let exists = |place: &str| engine(sources).any(|source| source.path.starts_with(place));
    UNSAFE_PLACES
        .iter()
        .map(|(place, _)| *place)
        .filter(|place| exists(place) && !has_unsafe(place))
        .collect()
}

/// Finds words that the engine must not contain.
pub fn banned_words(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in engine(sources) {
        for banned in
            BANNED.iter().filter(|banned| !banned.but_in.iter().any(|place| source.path.starts_with(place)))
        {
            for word in banned.words {
                let found = Source::words(&source.engine, word);
                violations
                    .extend(found.map(|at| source.violation(at, format!("`{word}`: {}", banned.instead))));
            }
        }
    }
    violations
}

/// The one file outside of `protocol/` that may name protocols: it ties each one's options to it.
const PROTOCOL_OPTIONS: &str = "src/options/protocol_options.rs";

/// A protocol named outside of `protocol/`: the list is to be iterated, never matched.
pub fn named_protocols(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let may_name = |path: &str| path.starts_with("src/protocol/") || path == PROTOCOL_OPTIONS;
    for source in engine(sources).filter(|source| !may_name(&source.path)) {
        for at in Source::words(&source.engine, "ProtocolKind::") {
            let name = source.engine[at + "ProtocolKind::".len()..].bytes().take(2).collect::<Vec<_>>();
            if name.len() == 2 && name[0].is_ascii_uppercase() && name[1].is_ascii_lowercase() {
                violations.push(source.violation(
                    at,
                    "one protocol is named outside of src/protocol/: ask the trait, or iterate `ProtocolKind::ALL`",
                ));
            }
        }
    }
    violations
}

/// Files that are too long or don't say what they are for.
pub fn files(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in sources {
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            let what = format!("{lines} lines: split the file by idea, {LINES_MAX} are the most");
            violations.push(source.violation(source.text.len(), what));
        }
        if !source.text.starts_with("//!") {
            violations.push(
                source
                    .violation(0, "the file does not open with `//!`: say what it does, and its invariants"),
            );
        }
        for mark in [concat!("FIX", "ME"), concat!("TO", "DO")] {
            let found = Source::words(&source.text, mark);
            violations.extend(
                found.map(|at| source.violation(at, "finish it, or open an issue and leave the mark out")),
            );
        }
    }
    violations
}

/// Functions that are too long to be read at once.
pub fn functions(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in sources {
        for at in Source::words(&source.code, "fn ") {
            let lines = body(&source.code[at..]).map_or(0, |body| body.lines().count());
            let most = if source.path.starts_with("tests/") { TEST_LINES_MAX } else { FUNCTION_LINES_MAX };
            if lines > most {
                let what = format!("a function of {lines} lines: {most} are the most, aim at 30; split it");
                violations.push(source.violation(at, what));
            }
        }
    }
    violations
}

/// From a function's `fn` to its closing brace; none if it is only declared.
fn body(code: &str) -> Option<&str> {
    let mut depth = 0_i64;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return None,
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(&code[..=at]),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Workloads that know a protocol, the driver or the command line.
pub fn workloads(sources: &[Source], protocols: &[&str]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with("crates/workloads/src/")) {
        for (at, name) in names(&source.engine) {
            if words_of(name).any(|word| protocols.contains(&word.as_str())) {
                violations.push(source.violation(
                    at,
                    format!("`{name}` names a protocol: a workload is written once for all of them"),
                ));
            }
            let is_driver =
                source.path.starts_with("crates/workloads/src/driver") || source.path.ends_with("src/lib.rs");
            if matches!(name, "clap" | "heddle_cli") || name == "driver" && !is_driver {
                violations.push(source.violation(
                    at,
                    format!("`{name}`: a workload knows neither who drives it nor the command line; pass in what it needs"),
                ));
            }
        }
    }
    violations
}

fn engine(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|source| source.path.starts_with("src/"))
}

/// Every identifier of the code.
fn names(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_name = |character: char| character == '_' || character.is_alphanumeric();
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + code[from..].find(is_name)?;
        let length = code[start..].find(|character| !is_name(character)).unwrap_or(code.len() - start);
        from = start + length;
        Some((start, &code[start..from]))
    })
}

/// The words of an identifier, in lower case: `SerialVariant` and `serial_variant` are `serial`, `variant`.
pub fn words_of(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    for character in name.chars() {
        if character == '_' || character.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character != '_') {
            word.extend(character.to_lowercase());
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}

mod canaries {
    use super::*;
    use crate::source::prepare;

    fn one(path: &str, text: &str) -> Vec<Source> {
        prepare(vec![(path.to_string(), text.to_string())])
    }

    #[test]
    fn unsafe_is_caught_where_it_is_not_listed() {
        let code = "fn a() { unsafe { b() } }";
        assert_eq!(unsafe_places(&one("src/pipeline/call.rs", code)).len(), 1);
        assert_eq!(unsafe_places(&one("src/storage/row.rs", code)).len(), 0);
        assert_eq!(
            unsafe_places(&one("src/pipeline/call.rs", "// unsafe\n#[cfg(test)]\nmod t { unsafe {} }")).len(),
            0
        );
        assert!(!places_without_unsafe(&one("src/storage/row.rs", code)).contains(&"src/storage/"));
        assert!(places_without_unsafe(&one("src/storage/row.rs", "fn a() {}")).contains(&"src/storage/"));
    }

    #[test]
    fn banned_words_are_caught() {
        for (path, code, count) in [
            ("src/storage/a.rs", "fn a() { std::thread::spawn(b); }", 1),
            ("src/storage/a.rs", "fn a() { thread::Builder::new(); }", 1),
            ("src/pipeline/a.rs", "fn a() { std::thread::spawn(b); }", 0),
            (
                "src/storage/a.rs",
                "#[cfg(test)]\nmod tests { fn a() { std::thread::spawn(b).join().unwrap(); } }",
                0,
            ),
            ("src/storage/a.rs", "fn a() { b.unwrap(); c.expect(\"d\"); e.unwrap_or(f); }", 2),
            ("src/storage/a.rs", "fn a() { todo!() }", 1),
            ("src/storage/a.rs", "use std::sync::atomic::AtomicU64;", 1),
            ("src/base/atomics.rs", "pub use std::sync::atomic::AtomicU64;", 0),
            ("src/durability/a.rs", "use std::fs;", 1),
            ("src/pipeline/a.rs", "use std::os::unix::net::UnixStream;", 1),
            ("crates/cli/src/main.rs", "fn a() { println!(); }", 0),
        ] {
            assert_eq!(banned_words(&one(path, code)).len(), count, "{path}: {code}");
        }
    }

    #[test]
    fn a_protocol_named_outside_its_folder_is_caught() {
        let code = "fn a(b: ProtocolKind) { match b { ProtocolKind::Serial => {} } ProtocolKind::ALL; ProtocolKind::name(b); }";
        assert_eq!(named_protocols(&one("src/pipeline/a.rs", code)).len(), 1);
        assert_eq!(named_protocols(&one("src/protocol/mod.rs", code)).len(), 0);
    }

    #[test]
    fn long_files_silent_files_and_marks_are_caught() {
        assert_eq!(files(&one("src/a.rs", "//! A.\nfn a() {}\n")).len(), 0);
        assert_eq!(files(&one("src/a.rs", "fn a() {}\n")).len(), 1);
        assert_eq!(files(&one("src/a.rs", &"//! A.\n".repeat(LINES_MAX + 1))).len(), 1);
        assert_eq!(files(&one("src/a.rs", concat!("//! A.\n// FIX", "ME: b\n"))).len(), 1);
    }

    #[test]
    fn long_functions_are_caught() {
        let function =
            |lines: usize| format!("fn a(b: [u8; 3]) {{\n{}}}\nfn c();\n", "d({ e });\n".repeat(lines - 2));
        assert_eq!(functions(&one("src/a.rs", &function(FUNCTION_LINES_MAX))).len(), 0);
        assert_eq!(functions(&one("src/a.rs", &function(FUNCTION_LINES_MAX + 1))).len(), 1);
        assert_eq!(
            functions(&one("src/a.rs", &format!("fn c();\n{}", "const D: u8 = 1;\n".repeat(99)))).len(),
            0
        );
    }

    #[test]
    fn workloads_that_know_too_much_are_caught() {
        let protocols = ["serial", "optimistic"];
        for (path, code, count) in [
            ("crates/workloads/src/probe/mod.rs", "use heddledb::SerialVariant;", 1),
            ("crates/workloads/src/probe/mod.rs", "let a = options.protocol(SerialOptions::default());", 1),
            ("crates/workloads/src/probe/mod.rs", "fn serialize(serializable: u8) {} // serial", 0),
            ("crates/workloads/src/probe/mod.rs", "use crate::driver::Run;", 1),
            ("crates/workloads/src/driver/mod.rs", "use crate::driver::Run;", 0),
            // A bench drives workloads under protocols, as the command line does.
            ("crates/workloads/benches/interference/load.rs", "use heddle_workloads::driver;", 0),
            ("crates/workloads/src/driver/mod.rs", "use clap::Parser;", 1),
            ("crates/cli/src/main.rs", "use heddledb::SerialVariant; use clap::Parser;", 0),
        ] {
            assert_eq!(workloads(&one(path, code), &protocols).len(), count, "{path}: {code}");
        }
    }
}
