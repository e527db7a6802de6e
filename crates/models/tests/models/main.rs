//! Every model under the checker that was compiled in; and every fault that one of them must find.

mod faults;

use std::process::{Command, Output};
use std::time::Instant;

use heddle_model_doors::Quarantine;
use heddle_model_doors::faults::line_of;
use heddle_models::models::{Model, all};

#[global_allocator]
static ALLOCATOR: Quarantine = Quarantine;

/// Only the model of this name.
const ONE_MODEL: &str = "HEDDLE_MODEL";

#[test]
fn every_model_holds() {
    let only = std::env::var(ONE_MODEL).ok();
    let chosen: Vec<Model> =
        all().filter(|model| only.as_deref().is_none_or(|only| only == model.name)).collect();
    assert!(!chosen.is_empty(), "there is no model of the name {only:?}");
    for model in chosen {
        let start = Instant::now();
        model.check();
        println!("{:6.2} s  {}", start.elapsed().as_secs_f64(), model.name);
    }
}

#[test]
fn every_fault_names_a_place_that_exists() {
    let moved: Vec<&str> = faults::ALL
        .iter()
        .map(|fault| fault.place)
        .filter(|place| {
            let parts: Vec<&str> = place.splitn(4, '|').collect();
            std::panic::catch_unwind(|| line_of(parts[1], parts[2], parts[3])).is_err()
        })
        .collect();
    assert!(moved.is_empty(), "the code is elsewhere now:\n{}", moved.join("\n"));
}

#[test]
fn every_fault_is_found() {
    // A model that finds one leaves its threads where they stand: so each runs in a process of its own.
    let missed: Vec<&str> =
        faults::ALL.iter().filter_map(|fault| (!is_found(fault)).then_some(fault.place)).collect();
    assert!(missed.is_empty(), "no model has noticed:\n{}", missed.join("\n"));
}

/// Schedules are random: a fault that one number of them misses is looked for with more.
fn is_found(fault: &faults::Seeded) -> bool {
    ["4", "16", "64"].iter().any(|factor| is_found_with(fault, factor))
}

fn is_found_with(fault: &faults::Seeded, factor: &str) -> bool {
    let exe = std::env::current_exe().expect("this test's own file");
    let Output { status, stdout, stderr } = Command::new(exe)
        .args(["--exact", "every_model_holds", "--nocapture"])
        .env(ONE_MODEL, fault.model)
        .env(heddle_model_doors::faults::VARIABLE, fault.place)
        .env("RUST_BACKTRACE", "0")
        .env("HEDDLE_MODEL_FACTOR", factor)
        .output()
        .expect("it runs");
    let reported = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    // A fault whose place is not there any more is no fault found.
    assert!(!reported.contains("(any more)"), "{reported}");
    assert!(!reported.contains("there is no model"), "{reported}");
    println!("{:5}  {}  {}", !status.success(), fault.place, fault.model);
    !status.success()
}
