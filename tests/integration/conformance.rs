//! The conformance suite, which every protocol enters with one line: see `src/testing/conformance/mod.rs`.

#[path = "../../src/testing/conformance/mod.rs"]
pub mod suite;

use heddledb::{
    LockConflict, LockingOptions, Options, PartitionedOptions, PhasedOptions, Plan, PredictOptions,
    ProtocolKind, ProtocolOptions, ScheduleKind, ScheduleOptions, SerialOptions, SerialVariant,
};
use suite::{Subject, anomalies, histories, semantics};

/// Enters protocols, each with the options under which it is tested; each part becomes a test of its own.
macro_rules! enter {
    ($($protocol:ident: [$($options:expr),+ $(,)?];)+) => {
        $(mod $protocol {
            use super::*;

            fn subjects() -> Vec<Subject> {
                named(stringify!($protocol), vec![$(Configuration::from($options)),+])
            }

            #[test]
            fn scripts_on_one_thread_answer_as_they_are_written() {
                subjects().iter().for_each(semantics::golden);
            }

            #[test]
            fn random_scripts_on_one_thread_answer_as_the_model_does_and_as_under_serial() {
                let reference = named("serial", vec![under(ProtocolKind::Serial).into()]).remove(0);
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
            fn a_transaction_that_finds_no_row_can_insert_one() {
                subjects().iter().for_each(histories::race::for_keys);
            }

            #[test]
            fn random_histories_leave_no_child_without_its_parent() {
                subjects().iter().for_each(histories::family::random);
            }

            #[test]
            fn random_histories_keep_to_bounds() {
                subjects().iter().for_each(histories::stock::random);
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
        under(ProtocolKind::Serial),
        under(SerialOptions::default().partitions(4)).workers(3),
        under(SerialOptions::default().variant(SerialVariant::Naive).partitions(2)),
        under(SerialOptions::default().variant(SerialVariant::Precommit)),
    ];
    locking: [
        under(ProtocolKind::Locking).workers(2),
        under(LockingOptions::default().conflict(LockConflict::NoWait)).workers(8),
    ];
    optimistic: [under(ProtocolKind::Optimistic).workers(2)];
    phased: [
        under(ProtocolKind::Phased).workers(2),
        labelled(under(PhasedOptions::default().phase_milliseconds(0.5)).workers(2)),
        changing(under(PhasedOptions::default().phase_milliseconds(0.5)).workers(2)),
    ];
    partitioned: [
        under(PartitionedOptions::default().executors(1)),
        under(PartitionedOptions::default().executors(2)),
        under(PartitionedOptions::default().executors(8)),
        moving(under(PartitionedOptions::default().executors(2).plan(Plan::Parallel))),
        moving(under(PartitionedOptions::default().executors(5))),
        under(PartitionedOptions::default().executors(3).plan(Plan::Serial)),
    ];
    auto: [
        under(ProtocolKind::Auto).workers(2),
        labelled(under(ProtocolOptions::from(ProtocolKind::Auto).phased(shortest())).workers(3)),
        changing(under(ProtocolOptions::from(ProtocolKind::Auto).phased(shortest())).workers(2)),
    ];
}

/// The schedule `random`, and `predict` that decides from the first call on.
fn learning_at_once() -> ScheduleOptions {
    ScheduleOptions::from(ScheduleKind::Random).predict(PredictOptions::default().history_seconds(0.0))
}

/// Phases of half a millisecond.
fn shortest() -> PhasedOptions {
    PhasedOptions::default().phase_milliseconds(0.5)
}

fn under(protocol: impl Into<ProtocolOptions>) -> Options {
    Options::default().protocol(protocol)
}

/// The configuration in which a protocol is tested: its options; flags for columns that are labelled to be
/// split, and for boundaries that move all the time.
struct Configuration {
    options: Options,
    labels: bool,
    moves: bool,
    changes: bool,
}

impl From<Options> for Configuration {
    fn from(options: Options) -> Configuration {
        Configuration { options, labels: false, moves: false, changes: false }
    }
}

fn labelled(options: Options) -> Configuration {
    Configuration { labels: true, ..options.into() }
}

fn moving(options: Options) -> Configuration {
    Configuration { moves: true, ..options.into() }
}

/// The protocol and the schedule that are in force at first are replaced by others every few milliseconds; so each is tested with each.
fn changing(options: Options) -> Configuration {
    let options = options.schedule(learning_at_once().partition_key("id"));
    Configuration { changes: true, labels: true, ..options.into() }
}

fn named(protocol: &str, configurations: Vec<Configuration>) -> Vec<Subject> {
    let kind: ProtocolKind = protocol.parse().expect("a protocol");
    for Configuration { options, .. } in &configurations {
        assert!(
            format!("{options:?}").contains(&format!("kind: {kind:?},")),
            "{options:?} is not {protocol}"
        );
    }
    let subject = |(number, configuration): (usize, Configuration)| Subject {
        name: format!("{protocol}, {number}"),
        options: configuration.options,
        labels: configuration.labels,
        moves: configuration.moves,
        changes: configuration.changes,
    };
    configurations.into_iter().enumerate().map(subject).collect()
}
