//! Help, and wrong usage: exit code 2, and a message that says what to do.

use std::process::Stdio;

use crate::common;
use common::{command, errors, heddle, text};

/// Asserts that a command line is refused as wrong usage, and that the message has these words in it.
fn refused(arguments: &[&str], words: &[&str]) {
    let output = heddle(arguments);
    let message = errors(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?}: nothing but errors");
    for word in words {
        assert!(message.contains(word), "{arguments:?} should say {word:?}: {message}");
    }
}

#[test]
fn help_has_examples_for_every_command() {
    let commands: [&[&str]; 18] = [
        &["--help"],
        &["bench", "--help"],
        &["bench", "debit-credit", "--help"],
        &["bench", "probe", "--help"],
        &["bench", "flights", "--help"],
        &["bench", "incr1", "--help"],
        &["bench", "incrz", "--help"],
        &["bench", "like", "--help"],
        &["bench", "bookings", "--help"],
        &["bench", "flash-sale", "--help"],
        &["bench", "rubis", "--help"],
        &["bench", "ycsb", "--help"],
        &["bench", "tatp", "--help"],
        &["bench", "tpcc", "--help"],
        &["check", "--help"],
        &["inspect", "--help"],
        &["dump", "--help"],
        &["follow", "--help"],
    ];
    for arguments in commands {
        let output = heddle(arguments);
        assert!(output.status.success());
        let help = String::from_utf8_lossy(&output.stdout);
        assert!(help.contains("Example") && help.contains("heddle "), "{arguments:?}: {help}");
    }
}

#[test]
fn no_command_unknown_commands_and_unknown_options_are_refused() {
    refused(&[], &["Usage"]);
    refused(&["vacuum"], &["vacuum"]);
    refused(&["bench"], &["debit-credit"]);
    refused(&["bench", "tpc-z"], &["tpc-z"]);
    refused(&["bench", "debit-credit", "--no-such-option"], &["--no-such-option"]);
    refused(&["bench", "debit-credit", "--durability", "sometimes"], &["--durability", "sometimes"]);
    refused(&["bench", "debit-credit", "--protocol", "magic"], &["--protocol", "magic"]);
    refused(&["bench", "debit-credit", "--checkpoint", "sometimes"], &["--checkpoint", "never"]);
    refused(&["bench", "debit-credit", "--checkpoint-seconds=-1"], &["--checkpoint-seconds", "0 to"]);
    refused(&["bench", "debit-credit", "--retry", "never"], &["--retry", "backoff"]);
    refused(&["bench", "debit-credit", "--lock-conflict", "die"], &["--lock-conflict", "no-wait"]);
    refused(&["bench", "incr1", "--split", "incr1.value"], &["--split", "TABLE.COLUMN:KEY:OPERATION"]);
    refused(&["bench", "incr1", "--split", "incr1.value:1:double"], &["--split", "multiply"]);
    let small = ["bench", "incr1", "--keys=10", "--durability=none", "--protocol=phased"];
    refused(&[&small[..], &["--split", "nowhere.value:1:add"]].concat(), &["nowhere"]);
    refused(&[&small[..], &["--split", "incr1.id:1:add"]].concat(), &["--split incr1.id:1:add"]);
    refused(&["bench", "incr1", "--contender", "magic"], &["--contender", "atomic"]);
    refused(&["bench", "debit-credit", "--variant", "best"], &["--variant", "best"]);
    refused(&["bench", "debit-credit", "--stages", "three"], &["--stages", "three"]);
    refused(&["bench", "debit-credit", "--max-in-flight", "many"], &["--max-in-flight", "auto"]);
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    let bench = |option: &'static str, value: &'static str, word: &str| {
        refused(&["bench", "debit-credit", "--durability", "none", &format!("{option}={value}")], &[word]);
    };
    bench("--seconds", "0", "--seconds");
    bench("--seconds", "-1", "--seconds");
    bench("--warmup", "-1", "--warmup");
    bench("--threads", "0", "--threads");
    bench("--threads", "2000", "--threads");
    bench("--rate", "0", "--rate");
    bench("--transactions", "0", "--transactions");
    bench("--in-flight", "0", "--in-flight");
    bench("--think-us", "18446744073709551615", "--think-us");
    bench("--branches", "0", "--branches");
    bench("--accounts-per-branch", "0", "--accounts-per-branch");
    bench("--bad-percent", "101", "--bad-percent");
    let of = |option: &'static str, value: &'static str, word: &'static str| {
        refused(&["bench", "debit-credit", option, value], &[word]);
    };
    of("--durability=group", "--group-size=0", "group_size");
    of("--durability=group", "--group-ms=-1", "--group-ms");
    of("--protocol=serial", "--sites=0", "--sites");
    of("--protocol=phased", "--phase-ms=-1", "--phase-ms");
    for (workload, option) in [
        ("incr1", "--keys=1"),
        ("incr1", "--hot-percent=101"),
        ("incr1", "--rotate-seconds=-1"),
        ("incrz", "--alpha=-1"),
        ("like", "--users=0"),
        ("like", "--write-percent=101"),
        ("bookings", "--longest-stay=366"),
        ("bookings", "--tour-percent=101"),
        ("flash-sale", "--items=0"),
        ("flash-sale", "--view-percent=101"),
        ("rubis", "--users=1"),
        ("rubis", "--alpha=-1"),
        ("rubis", "--mix=d"),
        ("ycsb", "--ops=65"),
        ("ycsb", "--value-size=7"),
        ("tatp", "--subscribers=0"),
        ("tatp", "--probe-records=0"),
        ("tpcc", "--warehouses=0"),
        ("tpcc", "--remote-percent=101"),
    ] {
        let name = option.split('=').next().unwrap_or(option);
        refused(&["bench", workload, option, "--durability", "none"], &[name]);
    }
    refused(&["bench", "probe", "--update-percent=200", "--durability", "none"], &["--update-percent"]);
    refused(&["bench", "probe", "--records=5", "--durability", "none"], &["--records"]);
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    refused(&["bench", "debit-credit", "--clients", "2", "--in-flight", "4"], &["--in-flight"]);
    refused(&["bench", "debit-credit", "--seconds", "1", "--transactions", "4"], &["--transactions"]);
    refused(&["bench", "debit-credit", "--durability", "none", "--verify-recovery"], &["--durability group"]);
    refused(&["bench", "probe", "--through-pipeline"], &["--clients"]);
    for workload in ["probe", "incr1", "incrz", "like", "ycsb", "tatp"] {
        refused(&["bench", workload, "--acks", "somewhere"], &["--acks"]);
    }
    refused(&["bench", "tatp", "--only", "get-everything"], &["--only", "get-subscriber-data"]);
    refused(&["bench", "tatp", "--only", "update-location", "--mix", "paper"], &["--mix"]);
    refused(&["bench", "tatp", "--hot-percent", "90"], &["--hot"]);
    refused(&["bench", "tpcc", "--only", "payments"], &["--only", "order-status"]);
    let home = ["bench", "tpcc", "--terminals", "home", "--alpha", "1", "--durability", "none"];
    refused(&home, &["--terminals home", "--alpha"]);
    let atomic = ["bench", "incr1", "--contender", "atomic"];
    refused(&[&atomic[..], &["--clients", "2"]].concat(), &["--clients"]);
    refused(&[&atomic[..], &["--rate", "100"]].concat(), &["--rate"]);
    refused(&[&atomic[..], &["--dir", "somewhere"]].concat(), &["--dir"]);
    refused(&[&atomic[..], &["--verify-recovery"]].concat(), &["--verify-recovery"]);
}

/// Each option belongs to what the second list gives: it is refused without, and the message names that.
#[test]
fn options_that_cannot_apply_are_refused_by_name() {
    let none = "--durability=none";
    let of_protocols: [(&str, &str); 8] = [
        ("--sites=2", "serial"),
        ("--variant=naive", "serial"),
        ("--lock-conflict=no-wait", "locking"),
        ("--phase-ms=5", "phased"),
        ("--split=branch.balance:1:add", "phased"),
        ("--executors=2", "partitioned"),
        ("--boundaries=fixed", "partitioned"),
        ("--plan=serial", "partitioned"),
    ];
    let short = ["bench", "debit-credit", "--accounts-per-branch=10", "--transactions=1", none];
    for (option, protocol) in of_protocols {
        let name = option.split('=').next().unwrap();
        let wanted = format!("--protocol {protocol}");
        refused(&[&short[..], &[option, "--protocol=optimistic"]].concat(), &[name, &wanted]);
        let output = heddle(&[&short[..], &[option, "--protocol", protocol]].concat());
        assert!(output.status.success(), "{option} under {protocol}: {}", errors(&output));
    }
    for option in [
        "--group-size=2",
        "--group-ms=2",
        "--checkpoint=never",
        "--checkpoint-seconds=1",
        "--checkpoint-spread=0.5",
        "--checkpoint-transactions=10",
        "--checkpoint-dir=/tmp/somewhere",
        "--checkpoint-threads=2",
        "--follower",
        "--verify-recovery",
    ] {
        let name = option.split('=').next().unwrap();
        refused(&[&short[..], &[option]].concat(), &[name, "--durability group"]);
    }
    refused(&[&short[..], &["--input-threads=2"]].concat(), &["--input-threads", "--stages staged"]);
    let folded = ["--stages=folded", "--input-threads=2"];
    refused(&[&short[..], &folded].concat(), &["--input-threads", "--stages staged"]);
    let single = ["--stages=single", "--threads=1", "--output-threads=2"];
    refused(&[&short[..], &single].concat(), &["--output-threads", "--stages staged"]);
    refused(&[&short[..], &["--queue-calls=9"]].concat(), &["--queue-calls", "--schedule"]);
    refused(&[&short[..], &["--max-in-flight=9"]].concat(), &["--max-in-flight", "--clients"]);
    for workload in ["tatp", "tpcc"] {
        let routing = ["bench", workload, none, "--routing=apart"];
        refused(&routing, &["--routing", "--protocol partitioned"]);
    }
}

/// A workload, an option, options with which it has no effect, those with which it has, and what the message names.
type Case = (&'static str, &'static str, &'static [&'static str], &'static [&'static str], &'static str);

const WITHOUT_EFFECT: [Case; 13] = [
    (
        "tatp",
        "--probe-records=2",
        &["--subscribers=100"],
        &["--only=update-by-number"],
        "--only update-by-number",
    ),
    ("tatp", "--hot-percent=90", &["--subscribers=100", "--hot=0"], &["--hot=5"], "--hot above 0"),
    ("smallbank", "--hot-percent=90", &["--accounts=100", "--hot=0"], &["--hot=5"], "--hot above 0"),
    (
        "tpcc",
        "--remote-percent=5",
        &["--items=100", "--customers=10", "--only=new-order"],
        &["--only=payment"],
        "--only payment",
    ),
    (
        "tpcc",
        "--shift-seconds=1",
        &["--items=100", "--customers=10", "--alpha=0"],
        &["--alpha=1"],
        "--alpha above 0",
    ),
    (
        "ycsb",
        "--rmw",
        &["--records=100", "--read-percent=100"],
        &["--read-percent=50"],
        "--read-percent below 100",
    ),
    (
        "incr1",
        "--rotate-seconds=1",
        &["--keys=10", "--hot-percent=0"],
        &["--hot-percent=5"],
        "--hot-percent above 0",
    ),
    (
        "bookings",
        "--keys-only",
        &["--nights=60"],
        &["--schedule=predict", "--history-seconds=0.1"],
        "--schedule predict",
    ),
    (
        "bookings",
        "--guides=3",
        &["--nights=60", "--tour-percent=0"],
        &["--tour-percent=9"],
        "--tour-percent above 0",
    ),
    (
        "bookings",
        "--longest-stay=3",
        &["--nights=60", "--tour-percent=100"],
        &["--tour-percent=9"],
        "--tour-percent below 100",
    ),
    (
        "probe",
        "--through-pipeline",
        &["--records=100", "--clients=2", "--interface=sql"],
        &["--interface=rust"],
        "procedures",
    ),
    (
        "debit-credit",
        "--input-threads=2",
        &["--accounts-per-branch=10", "--stages=staged"],
        &["--clients=2"],
        "--clients",
    ),
    (
        "debit-credit",
        "--output-threads=2",
        &["--accounts-per-branch=10", "--stages=staged"],
        &["--clients=2"],
        "--clients",
    ),
];

/// Options that concern another transaction, another source of calls, another mix: with what they concern they are accepted.
#[test]
fn options_without_effect_are_refused() {
    let none = "--durability=none";
    let short = ["--transactions=20", none];
    for (workload, option, without, with, belongs_to) in WITHOUT_EFFECT {
        let name = option.split('=').next().unwrap();
        let base = [&["bench", workload, option][..], &short].concat();
        refused(&[&base[..], without].concat(), &[name, belongs_to]);
        // What is given twice counts as it is given last: so only what differs is replaced.
        let kept = without
            .iter()
            .filter(|one| !with.iter().any(|two| one.split('=').next() == two.split('=').next()));
        let kept: Vec<&str> = kept.filter(|one| !one.starts_with("--only")).copied().collect();
        let output = heddle(&[&base[..], &kept, with].concat());
        assert!(output.status.success(), "{workload} {option} {kept:?} {with:?}: {}", errors(&output));
    }
    let spread = ["bench", "debit-credit", "--checkpoint=never", "--checkpoint-spread=0.5"];
    refused(&spread, &["--checkpoint-spread", "--checkpoint-seconds"]);
    let log = ["bench", "debit-credit", "--log-dir=somewhere", "--dir=elsewhere", none];
    refused(&log, &["--log-dir", "--durability group"]);
    let figures = ["figures", "aborts", "--protocol=optimistic", "--lock-conflict=wait"];
    refused(&figures, &["--lock-conflict", "--protocol optimistic"]);
}

/// Tests that a contender, which makes the calls outside of the engine, refuses the engine's options.
#[test]
fn a_contender_refuses_every_option_of_the_engine() {
    let atomic = ["bench", "incr1", "--contender=atomic", "--keys=10", "--transactions=10", "--in-flight=4"];
    for option in [
        "--durability=group",
        "--durability=async",
        "--protocol=serial",
        "--sites=2",
        "--retry=immediate",
        "--stages=staged",
        "--group-size=4",
        "--log-dir=somewhere",
        "--interface=rust",
        "--think-us=5",
        "--input-us=5",
        "--access-trace=trace.svg",
        "--time-samples=10",
        "--checkpoint=never",
    ] {
        refused(&[&atomic[..], &[option]].concat(), &[option.split('=').next().unwrap(), "--contender"]);
    }
    let output = heddle(&[&atomic[..], &["--durability=none", "--threads=2", "--seed=7", "--json"]].concat());
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn flights_need_a_file_and_run_to_its_end() {
    refused(&["bench", "flights"], &["--input"]);
    let data = common::data("flights-bad.csv");
    refused(&["bench", "flights", "--input", text(&data), "--seconds", "1"], &["--seconds"]);
    refused(&["bench", "flights", "--input", text(&data), "--warmup", "1"], &["--warmup"]);
    refused(
        &["bench", "flights", "--input", text(&data), "--reference", "/nonexistent"],
        &["airlines.csv", "--reference"],
    );
    let missing = data.with_file_name("missing.csv");
    refused(&["bench", "flights", "--input", text(&missing), "--durability", "none"], &["missing.csv"]);
}

#[test]
fn directories_that_are_no_databases_are_refused() {
    for name in ["check", "inspect"] {
        refused(&[name, "/nonexistent/database"], &["/nonexistent/database"]);
    }
    refused(&["dump", "/nonexistent/database", "account"], &["/nonexistent/database"]);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("notes.txt"), "something else").unwrap();
    for name in ["check", "inspect"] {
        refused(&[name, text(directory.path())], &[text(directory.path())]);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was changed");
}

/// A small bank in a directory.
fn bank() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = text(directory.path());
    let bench = ["bench", "debit-credit", "--accounts-per-branch=20000", "--transactions=1", "--dir", path];
    assert!(heddle(&bench).status.success());
    directory
}

const BENCH: [&str; 5] = ["bench", "incr1", "--keys=10", "--transactions=10", "--durability=none"];

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let directory = bank();
    let path = text(directory.path());
    let copy = directory.path().join("copy");
    let commands: [&[&str]; 6] = [
        &["dump", path, "account"],
        &["inspect", path],
        &["check", path],
        &["backup", path, text(&copy)],
        &BENCH,
        &[&BENCH[..], &["--json"]].concat(),
    ];
    for arguments in commands {
        let mut child = command(arguments);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && errors(&output).is_empty(), "{arguments:?}: {}", errors(&output));
    }
}

#[test]
fn results_that_cannot_be_written_are_an_error() {
    let directory = bank();
    let path = text(directory.path());
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let commands: [&[&str]; 5] = [
        &["dump", path, "account"],
        &["inspect", path],
        &["check", path],
        &BENCH,
        &[&BENCH[..], &["--json"]].concat(),
    ];
    for arguments in commands {
        let output = command(arguments).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains("cannot write to standard output"), "{}", errors(&output));
    }
    let nowhere = command(&["check", "/nonexistent"]).stderr(full()).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2), "an error that cannot be reported has its exit code");
}
