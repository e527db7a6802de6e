//! The field's language: coined words that must not come back, and sentences without a subject that acts.
//!
//! Only what has no ordinary meaning in a database's sources is held: phrases in comments and documents, words in names.
//! And doc comments open with a noun or a verb.

use std::collections::BTreeMap;

use crate::rules::words_of;
use crate::source::{Source, Violation};

/// Phrases of comments and documents, in lower case and as whole words, and the field's expression for them.
const PHRASES: &[(&[&str], &str)] = &[
    (&["waiting place", "waiting places"], "waiter slot"),
    (&["hand-over", "hand-overs"], "batch"),
    (&["run again", "runs again", "ran again"], "aborts and retries; executes twice"),
    (&["what it keeps true"], "invariants"),
    (&["comes to nothing", "come to nothing"], "has no effect"),
    (&["works out", "worked out", "work out"], "computes"),
    (&["anew"], "again"),
    (&["of late"], "recently"),
    (&["in vain"], "unnecessarily"),
    (&["is told", "are told", "was told", "were told", "been told"], "is reported; learns; is notified"),
    (&["whoever", "nobody", "somebody"], "the thread, the transaction or the caller that acts"),
    (&["participant", "participants"], "worker context"),
    (&["doomed"], "marked for abort"),
    (&["rivalry", "rivalries"], "conflict class"),
    (&["misled", "misleads"], "misrouted"),
    (&["prey"], "victim of stealing"),
    (&["entrant", "entrants", "scout"], "incoming work; key resolution"),
];

/// Words of names, and the field's expression for them.
const NAMES: &[(&str, &str)] = &[
    ("told", "reported, notified, distinguished"),
    ("calm", "idle"),
    ("prey", "victim"),
    ("doomed", "marked_for_abort"),
    ("rivalry", "conflict_class"),
    ("participant", "worker_context"),
    ("participants", "worker_contexts"),
    ("entrant", "incoming, configuration"),
    ("birth", "start_timestamp"),
    ("births", "start_timestamps"),
];

/// Subjects that name no one who acts.
const SUBJECTS: &[&str] = &["Who", "Whoever", "Nobody", "Somebody"];

/// Words with which no doc comment opens: it says what an item is, or what it does.
const OPENINGS: &[&str] = &["What", "Whether", "How", "Where", "Which", "Who", "Why", "When", "As"];

/// Of a hundred documented items of a crate, fewer than this many may open so.
const OPENINGS_PERCENT: usize = 3;

/// Phrases and sentences of a document, or of a source's comments, that are not the field's language.
pub fn prose(path: &str, text: &str) -> Vec<Violation> {
    let is_source = path.ends_with(".rs");
    let mut violations = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(prose) = (if is_source { comment(line) } else { Some(line) }) else { continue };
        let mut violation =
            |what: String| violations.push(Violation { path: path.to_string(), line: number + 1, what });
        let lower = prose.to_lowercase();
        for (phrases, instead) in PHRASES {
            for phrase in phrases.iter().filter(|phrase| holds(&lower, phrase)) {
                violation(format!("\"{phrase}\" is not the field's language: {instead}"));
            }
        }
        if let Some(subject) = SUBJECTS.iter().find(|subject| begins_sentence(prose, subject)) {
            violation(format!(
                "a sentence begins with \"{subject}\": name the thread or transaction that acts"
            ));
        }
    }
    violations
}

/// Names in code that contain a coined word.
pub fn names(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in sources {
        for (at, name) in identifiers(&source.code) {
            let words: Vec<String> = words_of(name).collect();
            if let Some((word, instead)) = NAMES.iter().find(|(word, _)| words.iter().any(|one| one == word))
            {
                violations.push(source.violation(at, format!("`{name}`: not \"{word}\" but {instead}")));
            }
        }
    }
    violations
}

/// Doc comments that open with an interrogative or "As", where they are too many among the documented items of a crate.
pub fn openings(sources: &[Source]) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, (usize, Vec<Violation>)> = BTreeMap::new();
    for source in sources {
        let Some(folder) = sources_of_crate(&source.path) else { continue };
        let (documented, found) = crates.entry(folder).or_default();
        let mut is_inside = false;
        for (number, line) in source.text.lines().enumerate() {
            let doc = line.trim_start().strip_prefix("///");
            if let Some(doc) = doc.filter(|_| !is_inside) {
                *documented += 1;
                let first = doc.trim_start().split(|character: char| !character.is_alphanumeric()).next();
                if let Some(word) = first.filter(|word| OPENINGS.contains(word)) {
                    let what = format!(
                        "a doc comment opens with \"{word}\": open it with a noun or a verb, for what the item is or does"
                    );
                    found.push(Violation { path: source.path.clone(), line: number + 1, what });
                }
            }
            is_inside = doc.is_some();
        }
    }
    let too_many =
        |(documented, found): &(usize, Vec<Violation>)| found.len() * 100 >= documented * OPENINGS_PERCENT;
    crates.into_values().filter(too_many).flat_map(|(_, found)| found).collect()
}

/// The folder of the sources of the file's crate; `None` if the file is a test.
fn sources_of_crate(path: &str) -> Option<&str> {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    let folder = if path.starts_with("src/") { "src" } else { &path[..path.find("/src/")? + "/src".len()] };
    (!is_test).then_some(folder)
}

/// The comment of a line.
fn comment(line: &str) -> Option<&str> {
    let at = line.find("//")?;
    Some(line[at..].trim_start_matches(['/', '!']).trim_start())
}

/// Returns true if a text contains a phrase as whole words.
fn holds(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == '`';
        !text[..at].ends_with(is_part) && !text[at + phrase.len()..].starts_with(is_part)
    })
}

/// Returns true if a sentence of the line begins with this word, and is no question.
fn begins_sentence(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, behind) = (line[..at].trim_end(), &line[at + word.len()..]);
        let is_first = before.is_empty() || before.ends_with(['.', ':', ';', '(', '|', '-', '*']);
        is_first && behind.starts_with(' ') && !behind.contains('?')
    })
}

/// The identifiers of a piece of code, with their offsets.
pub fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let is_part = |character: char| character.is_alphanumeric() || character == '_';
        let at = from + code[from..].find(is_part)?;
        let length = code[at..].find(|character| !is_part(character)).unwrap_or(code.len() - at);
        from = at + length;
        Some((at, &code[at..from]))
    })
}

mod canaries {
    use super::*;
    use crate::source::prepare;

    #[test]
    fn coined_phrases_are_caught_in_comments_and_documents() {
        for (path, text, count) in [
            ("src/a.rs", concat!("/// It runs", " again after a conflict."), 1),
            ("src/a.rs", concat!("let a = \"it runs", " again\";"), 0),
            ("src/a.rs", "/// The transaction aborts and retries.", 0),
            ("docs/a.md", concat!("The marks are worked", " out when it commits."), 1),
            ("docs/a.md", "Workout plans.", 0),
            ("docs/a.md", concat!("The user `no", "body` owns it."), 0),
        ] {
            assert_eq!(prose(path, text).len(), count, "{text}");
        }
    }

    #[test]
    fn sentences_without_an_acting_subject_are_caught() {
        for (text, count) in [
            (concat!("// Who", " holds the gate is alone."), 1),
            (concat!("// It is closed. Who", " comes later waits."), 1),
            ("// Who holds the gate?", 0),
            ("// The thread who holds the gate", 0),
            ("// Whole rows are copied.", 0),
        ] {
            assert_eq!(prose("src/a.rs", text).len(), count, "{text}");
        }
    }

    #[test]
    fn openings_that_are_no_noun_and_no_verb_are_caught() {
        let text = |questions: usize, others: usize| {
            let items =
                ["/// What a record comes to.\nfn a() {}\n", "/// A record.\n/// What else?\nfn b() {}\n"];
            format!("//! A.\n{}{}", items[0].repeat(questions), items[1].repeat(others))
        };
        for (path, questions, others, count) in [
            ("src/a.rs", 1, 0, 1),
            ("src/a.rs", 3, 97, 3),
            ("src/a.rs", 2, 98, 0),
            ("crates/sql/src/a.rs", 1, 9, 1),
            ("crates/sql/src/a/tests.rs", 1, 0, 0),
            ("crates/sql/tests/a.rs", 1, 0, 0),
        ] {
            let sources = prepare(vec![(path.to_string(), text(questions, others))]);
            assert_eq!(openings(&sources).len(), count, "{path}: {questions} of {}", questions + others);
        }
    }

    #[test]
    fn coined_words_in_names_are_caught() {
        for (code, count) in [
            (concat!("fn mistakes_are_to", "ld() {}"), 1),
            (concat!("enum Mode { Ca", "lm }"), 1),
            ("fn untold_stories() {}", 0),
            ("fn f() { g(\"told\") }", 0),
        ] {
            let sources = prepare(vec![("src/a.rs".to_string(), format!("//! A.\n{code}\n"))]);
            assert_eq!(names(&sources).len(), count, "{code}");
        }
    }
}
