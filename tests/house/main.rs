//! The house's rules, held by reading the sources.
//!
//! Each rule says what to do where it is broken, and each has a canary: a test which shows that the rule catches what
//! it is there for. The rules themselves are explained in `CONTRIBUTING.md`.

mod documents;
mod imports;
mod language;
mod references;
mod rules;
mod skips;
mod source;

use std::fs;

use heddledb::ProtocolKind;

use source::{Violation, collect, read_all, relative, root};

fn protocols() -> Vec<&'static str> {
    // Protocols that are planned count, so that nothing gets used to one of them by name.
    let planned = ["serial", "locking", "optimistic", "phased", "partitioned"];
    let present = ProtocolKind::ALL.iter().map(|kind| kind.name());
    present.chain(planned).collect()
}

fn demand_none(violations: Vec<Violation>) {
    let lines: Vec<_> =
        violations.iter().map(|one| format!("{}:{}: {}", one.path, one.line, one.what)).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}

/// Every file that people read, as path and text: sources, documents, manifests, scripts.
fn readable_files() -> Vec<(String, String)> {
    let root = root();
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests", "benches", "docs", ".ci"] {
        collect(&root.join(folder), &mut files);
    }
    let top = fs::read_dir(&root).expect("the workspace can be read").flatten().map(|entry| entry.path());
    files.extend(
        top.filter(|path| path.extension().is_some_and(|extension| extension == "md" || extension == "toml")),
    );
    files.iter().filter_map(|file| Some((relative(&root, file), fs::read_to_string(file).ok()?))).collect()
}

/// The files in these folders, from the root.
fn files_of(folders: &[&str]) -> Vec<String> {
    let root = root();
    let mut files = Vec::new();
    folders.iter().for_each(|folder| collect(&root.join(folder), &mut files));
    files.iter().map(|file| relative(&root, file)).collect()
}

#[test]
fn imports_run_one_way() {
    demand_none(imports::check(&read_all(), &protocols()));
}

#[test]
fn crates_depend_one_way() {
    let manifests = readable_files().into_iter().filter(|(path, _)| path.ends_with("Cargo.toml"));
    demand_none(manifests.flat_map(|(path, text)| documents::dependencies(&path, &text)).collect());
}

#[test]
fn unsafe_stands_where_it_is_listed() {
    let sources = read_all();
    demand_none(rules::unsafe_places(&sources));
    let empty = rules::places_without_unsafe(&sources);
    assert!(
        empty.is_empty(),
        "no `unsafe` is left there, take them off the list in tests/house/rules.rs: {empty:?}"
    );
}

#[test]
fn the_engine_starts_no_threads_and_panics_on_no_input() {
    demand_none(rules::banned_words(&read_all()));
}

#[test]
fn protocols_are_iterated_and_not_matched() {
    demand_none(rules::named_protocols(&read_all()));
}

#[test]
fn files_are_short_finished_and_say_what_they_are() {
    demand_none(rules::files(&read_all()));
}

#[test]
fn functions_can_be_read_at_once() {
    demand_none(rules::functions(&read_all()));
}

#[test]
fn workloads_know_no_protocol_and_no_driver() {
    demand_none(rules::workloads(&read_all(), &protocols()));
}

#[test]
fn comments_documents_and_names_use_the_fields_language() {
    let readable = readable_files();
    // The changelog names what was renamed, and the rule itself names everything.
    let spoken = readable.iter().filter(|(path, _)| {
        (path.ends_with(".rs") || path.ends_with(".md"))
            && path != "CHANGELOG.md"
            && path != "tests/house/language.rs"
    });
    let mut violations: Vec<_> = spoken.flat_map(|(path, text)| language::prose(path, text)).collect();
    violations.extend(language::names(&read_all()));
    demand_none(violations);
}

#[test]
fn doc_comments_open_with_a_noun_or_a_verb() {
    demand_none(language::openings(&read_all()));
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    demand_none(
        readable_files().iter().flat_map(|(path, text)| documents::foreign_places(path, text)).collect(),
    );
}

#[test]
fn no_file_is_too_long_to_be_kept() {
    let root = root();
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests", "benches", "docs", "proptest-regressions", ".ci"] {
        collect(&root.join(folder), &mut files);
    }
    let long = files.iter().filter_map(|file| {
        documents::too_long(&relative(&root, file), fs::metadata(file).map_or(0, |metadata| metadata.len()))
    });
    demand_none(long.collect());
}

#[test]
fn skipped_tests_are_counted_by_one_helper() {
    demand_none(skips::printed_skips(&read_all()));
}

#[test]
fn links_lead_somewhere() {
    let documents = readable_files().into_iter().filter(|(path, _)| path.ends_with(".md"));
    demand_none(documents.flat_map(|(path, text)| documents::dead_links(&root(), &path, &text)).collect());
}

#[test]
fn documents_name_what_exists() {
    let files = files_of(references::ROOTS);
    let known = references::Known::of(&files, &read_all());
    let documents = readable_files().into_iter().filter(|(path, _)| {
        let is_at_the_root = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md"];
        is_at_the_root.contains(&path.as_str()) || path.starts_with("docs/") && path.ends_with(".md")
    });
    demand_none(
        documents.flat_map(|(path, text)| references::dead_references(&known, &path, &text)).collect(),
    );
}

#[test]
fn the_index_lists_every_decision() {
    let index = fs::read_to_string(root().join(references::DECISIONS)).expect("the index is there");
    demand_none(references::decisions_not_in_index(&files_of(&["docs"]), &index));
}

#[test]
fn the_map_shows_every_folder() {
    let entries = fs::read_dir(root().join("src")).expect("the engine can be read").flatten();
    let has_files =
        |path: &std::path::Path| fs::read_dir(path).is_ok_and(|mut inside| inside.next().is_some());
    let folders = entries.filter(|entry| has_files(&entry.path()));
    let folders: Vec<_> = folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let map = fs::read_to_string(root().join(documents::MAP)).expect("the map of files is there");
    demand_none(documents::folders_not_in_map(&folders, &map));
}
