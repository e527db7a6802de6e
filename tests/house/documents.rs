//! Rules about what is no Rust: documents and manifests.

use std::path::Path;

use crate::source::Violation;

/// Texts that no file may contain: places of the machine that it was written on.
const FOREIGN_PLACES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/tm", "p/wt"),
    concat!("/tm", "p/spec"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

/// Each crate, and the crates of this workspace that it may depend on.
const MAY_DEPEND: &[(&str, &[&str])] = &[
    ("Cargo.toml", &["heddledb-derive"]),
    ("crates/derive/Cargo.toml", &[]),
    ("crates/transfer/Cargo.toml", &["heddledb"]),
    ("crates/archive/Cargo.toml", &["heddledb"]),
    ("crates/workloads/Cargo.toml", &["heddledb"]),
    ("crates/models/Cargo.toml", &["heddle-model-doors"]),
    ("crates/models/doors/Cargo.toml", &[]),
    ("crates/sql/Cargo.toml", &["heddledb", "heddledb-transfer"]),
    ("crates/server/Cargo.toml", &["heddledb", "heddle-sql"]),
    ("crates/python/Cargo.toml", &["heddledb", "heddle-sql"]),
    (
        "crates/cli/Cargo.toml",
        &[
            "heddledb",
            "heddledb-archive",
            "heddledb-transfer",
            "heddle-workloads",
            "heddle-sql",
            "heddle-server",
        ],
    ),
];

/// Paths of one machine.
pub fn foreign_places(path: &str, text: &str) -> Vec<Violation> {
    let found = text.lines().enumerate().filter_map(|(line, content)| {
        let place = FOREIGN_PLACES.iter().find(|place| content.contains(**place))?;
        let what = format!(
            "{place:?} is a place on one machine: write it relative to the workspace, or leave it out"
        );
        Some(Violation { path: path.to_string(), line: line + 1, what })
    });
    found.collect()
}

/// Links of a document that lead nowhere.
pub fn dead_links(root: &Path, path: &str, text: &str) -> Vec<Violation> {
    let folder = root.join(path).parent().map(Path::to_path_buf).unwrap_or_default();
    let mut violations = Vec::new();
    for (line, content) in text.lines().enumerate() {
        for (at, _) in content.match_indices("](") {
            let target = content[at + 2..].split([')', '#', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !folder.join(target).exists() {
                let what = format!("the link to {target:?} leads nowhere: correct it, or take it out");
                violations.push(Violation { path: path.to_string(), line: line + 1, what });
            }
        }
    }
    violations
}

/// The longest file of the project: a script that makes data takes less than the data.
const BYTES_MAX: u64 = 128 * 1024;

/// A file that is too long to be kept.
pub fn too_long(path: &str, bytes: u64) -> Option<Violation> {
    let what = || {
        format!(
            "{bytes} bytes, more than {BYTES_MAX}: whoever clones pays for it for ever, so make it where it is used"
        )
    };
    (bytes > BYTES_MAX).then(|| Violation { path: path.to_string(), line: 1, what: what() })
}

/// The page that shows every folder of the engine.
pub const MAP: &str = "docs/reference/files.md";

/// Folders of the engine that the map does not show.
pub fn folders_not_in_map(folders: &[String], map: &str) -> Vec<Violation> {
    let missing = folders.iter().filter(|folder| !map.contains(&format!("src/{folder}/")));
    missing
        .map(|folder| Violation {
            path: MAP.to_string(),
            line: 1,
            what: format!("`src/{folder}/` is not on the map: say there what it is for"),
        })
        .collect()
}

/// Dependencies between the crates of the workspace that go the wrong way.
pub fn dependencies(path: &str, text: &str) -> Vec<Violation> {
    let Some((_, allowed)) = MAY_DEPEND.iter().find(|(manifest, _)| *manifest == path) else {
        let what =
            "a new crate: say in tests/house/documents.rs which crates of this workspace it may depend on";
        return vec![Violation { path: path.to_string(), line: 1, what: what.to_string() }];
    };
    let mut violations = Vec::new();
    let mut section = "";
    for (line, content) in text.lines().enumerate() {
        if content.starts_with('[') {
            section = content.trim();
            continue;
        }
        let name = content.split(['=', '.', ' ']).next().unwrap_or_default();
        if section == "[dependencies]" && name.starts_with("heddle") && !allowed.contains(&name) {
            let what = format!("`{name}`: imports run one way, cli → server → sql → engine ← workloads");
            violations.push(Violation { path: path.to_string(), line: line + 1, what });
        }
    }
    violations
}

mod canaries {
    use super::*;

    #[test]
    fn places_of_a_machine_are_caught() {
        let text = concat!("good\n see /ho", "me/somebody/bank\n");
        let found = foreign_places("README.md", text);
        assert_eq!((found.len(), found[0].line), (1, 2));
        assert!(foreign_places("README.md", "target/release/heddle, /tmp/bank, a/b/c").is_empty());
    }

    #[test]
    fn long_files_are_caught() {
        assert!(too_long("tests/data/log", BYTES_MAX).is_none());
        assert!(too_long("tests/data/log", BYTES_MAX + 1).is_some());
    }

    #[test]
    fn dead_links_are_caught() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "[a](Cargo.toml) [b](https://example.org/x) [c](#part) [d](no-such-file.md#part)";
        assert_eq!(dead_links(root, "README.md", text).len(), 1);
        assert_eq!(dead_links(root, "src/a.md", "[a](../Cargo.toml)").len(), 0);
    }

    #[test]
    fn a_folder_that_the_map_leaves_out_is_caught() {
        let folders = ["storage".to_string(), "attic".to_string()];
        assert_eq!(folders_not_in_map(&folders, "`src/storage/`: records").len(), 1);
    }

    #[test]
    fn crates_that_depend_the_wrong_way_are_caught() {
        let backwards = "[dependencies]\nheddle-workloads.workspace = true\n";
        assert_eq!(dependencies("Cargo.toml", backwards).len(), 1);
        assert_eq!(dependencies("crates/cli/Cargo.toml", backwards).len(), 0);
        assert_eq!(
            dependencies("Cargo.toml", "[dev-dependencies]\nheddle-workloads.workspace = true\n").len(),
            0
        );
        assert_eq!(dependencies("crates/new/Cargo.toml", "").len(), 1);
    }
}
