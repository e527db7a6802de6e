//! Every example runs to its end: each checks its own result, in a test of its own.

#[path = "../../examples/bank.rs"]
#[allow(dead_code, reason = "its main takes a path of the command line")]
mod bank;
#[path = "../../examples/counter.rs"]
mod counter;
#[path = "../../examples/feed.rs"]
mod feed;
#[path = "../../examples/job_queue.rs"]
mod job_queue;
#[path = "../../examples/leaderboard.rs"]
mod leaderboard;
#[path = "../../examples/presence.rs"]
mod presence;
#[path = "../../examples/shop.rs"]
mod shop;

#[test]
fn every_example_is_run() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let here = include_str!("examples.rs");
    for entry in std::fs::read_dir(directory).expect("the examples") {
        let name = entry.expect("an example").file_name();
        assert!(here.contains(&format!("examples/{}", name.to_string_lossy())), "{name:?} is not run");
    }
}
