//! Canaries: foreign keys that are enforced wrongly on purpose, each in one way, and the proof that the conformance suite
//! catches them.

use crate::options::Options;
use crate::protocol::ProtocolKind;
use crate::storage::foreign_keys::Break;
use crate::testing::conformance::{Subject, histories};

fn subject(protocol: ProtocolKind) -> Subject {
    let options = Options::default().protocol(protocol);
    Subject { name: protocol.to_string(), options, labels: false, moves: false, changes: false }
}

/// Returns the first of the random histories that catches the fault, if one does.
fn caught(protocol: ProtocolKind, how: Break, histories: u64) -> Option<u64> {
    let subject = subject(protocol);
    (0..histories).find(|&seed| {
        let db = subject.database();
        db.engine().store().foreign_keys().break_on_purpose(how);
        histories::family::judge(db, seed, 4, 40).is_err()
    })
}

#[test]
fn random_histories_catch_a_check_that_is_skipped() {
    for &protocol in ProtocolKind::ALL {
        for how in [Break::SkipsReferring, Break::SkipsReferenced] {
            assert!(caught(protocol, how, 50).is_some(), "{protocol} {how:?} was not caught");
        }
    }
}

#[test]
fn random_histories_catch_an_existence_that_is_not_validated() {
    assert!(caught(ProtocolKind::Optimistic, Break::ForgetsExistence, 2_000).is_some(), "it was not caught");
}

#[test]
fn the_control_passes() {
    ProtocolKind::ALL.iter().for_each(|&protocol| histories::family::random(&subject(protocol)));
    assert_eq!(caught(ProtocolKind::Optimistic, Break::Nothing, 4), None);
}
