//! The conformance suite, which every protocol enters with one line: see `src/testing/conformance/mod.rs`.

#[path = "../src/testing/conformance/mod.rs"]
mod conformance;

use conformance::{Subject, anomalies, histories, semantics};
use heddledb::{LockConflict, Options, Plan, ProtocolKind, SerialVariant};

/// Enters protocols, each with the options under which it is tested; each part becomes a test of its own.
macro_rules! enter {
    ($($protocol:ident: [$($options:expr),+ $(,)?];)+) => {
        $(mod $protocol {
            use super::*;

            fn subjects() -> Vec<Subject> {
                named(stringify!($protocol), vec![$(Entrant::from($options)),+])
            }

            #[test]
            fn scripts_on_one_thread_answer_as_they_are_written() {
                subjects().iter().for_each(semantics::golden);
            }

            #[test]
            fn random_scripts_on_one_thread_answer_as_the_model_does_and_as_under_serial() {
                let reference = named("serial", vec![Options::default().into()]).remove(0);
                subjects().iter().for_each(|subject| semantics::random(subject, &reference));
            }

            #[test]
            fn a_transaction_does_not_conflict_with_itself() {
                subjects().iter().for_each(semantics::own_inserts);
            }

            #[test]
            fn no_anomaly_happens() {
                subjects().iter().for_each(anomalies::golden);
            }

            #[test]
            fn random_schedules_have_a_serial_order() {
                subjects().iter().for_each(anomalies::random);
            }

            #[test]
            fn who_finds_no_row_can_insert_one() {
                subjects().iter().for_each(histories::race::for_keys);
            }

            #[test]
            fn random_histories_are_serializable() {
                subjects().iter().for_each(histories::random);
            }
        })+

        #[test]
        fn every_protocol_has_entered() {
            let entered = [$(stringify!($protocol)),+];
            assert_eq!(ProtocolKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>(), entered);
        }
    };
}

enter! {
    serial: [
        Options::default(),
        Options::default().serial_partitions(4).workers(3),
        Options::default().serial_variant(SerialVariant::Naive).serial_partitions(2),
        Options::default().serial_variant(SerialVariant::Precommit),
    ];
    locking: [
        Options::default().workers(2),
        Options::default().workers(8).lock_conflict(LockConflict::NoWait),
    ];
    optimistic: [Options::default().workers(2)];
    phased: [Options::default().workers(2), labelled(Options::default().workers(2).phase_milliseconds(0.5))];
    partitioned: [
        Options::default().executors(1),
        Options::default().executors(2),
        Options::default().executors(8),
        moving(Options::default().executors(2).plan(Plan::Parallel)),
        moving(Options::default().executors(5)),
        Options::default().executors(3).plan(Plan::Serial),
    ];
}

/// What a protocol is tested with: its options, and whether columns are labelled to be split, and
/// boundaries move all the time.
struct Entrant {
    options: Options,
    labels: bool,
    moves: bool,
}

impl From<Options> for Entrant {
    fn from(options: Options) -> Entrant {
        Entrant { options, labels: false, moves: false }
    }
}

fn labelled(options: Options) -> Entrant {
    Entrant { labels: true, ..options.into() }
}

fn moving(options: Options) -> Entrant {
    Entrant { moves: true, ..options.into() }
}

fn named(protocol: &str, entrants: Vec<Entrant>) -> Vec<Subject> {
    let kind: ProtocolKind = protocol.parse().expect("a protocol");
    let subject = |(number, entrant): (usize, Entrant)| Subject {
        name: format!("{protocol}, {number}"),
        options: entrant.options.protocol(kind),
        labels: entrant.labels,
        moves: entrant.moves,
    };
    entrants.into_iter().enumerate().map(subject).collect()
}
