//! The most common mistakes do not compile, and the message names the way out (kept in `compile_errors/*.stderr`).
//!
//! `TRYBUILD=overwrite cargo test -p heddledb --test compile_errors` writes the messages again.

#[test]
fn messages_name_the_way_out() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}

#[test]
fn each_kept_message_has_a_hint() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_errors");
    let mut kept = 0;
    for entry in std::fs::read_dir(directory).expect("the cases") {
        let path = entry.expect("a case").path();
        if path.extension().is_some_and(|extension| extension == "stderr") {
            let message = std::fs::read_to_string(&path).expect("a message");
            let has_hint = ["give ", "add `"].iter().any(|hint| message.contains(hint));
            assert!(has_hint, "{}: {message}", path.display());
            kept += 1;
        }
    }
    assert_eq!(kept, 5);
}
