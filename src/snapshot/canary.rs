//! Canaries: snapshots that are broken on purpose, each in one way, and the proof that the conformance suite catches them.

use std::time::Duration;

use crate::PhasedOptions;
use crate::ProtocolOptions;
use crate::database::Database;
use crate::options::Options;
use crate::protocol::ProtocolKind;
use crate::storage::versions::Break;
use crate::testing::conformance::{Subject, histories};

/// A database whose snapshots are broken in this way.
fn broken(protocol: ProtocolKind, broken: Break) -> Database {
    let options = Options::default()
        .protocol(ProtocolOptions::from(protocol).phased(PhasedOptions::default().phase_milliseconds(0.5)));
    let subject = Subject {
        name: format!("{protocol} {broken:?}"),
        options,
        labels: true,
        moves: false,
        changes: false,
    };
    let db = subject.database();
    db.engine().store().versions().break_on_purpose(broken);
    db
}

/// Returns true if one of the first random histories catches it.
fn is_caught(protocol: ProtocolKind, how: Break, histories: u64) -> bool {
    (0..histories).any(|seed| histories::judge(broken(protocol, how), true, seed, 4, 40).is_err())
}

#[test]
fn random_histories_catch_a_snapshot_that_misses_one_write() {
    for &protocol in ProtocolKind::ALL {
        for how in [Break::LosesVersions, Break::KeepsVersionsTooLong, Break::IsTooEarly] {
            assert!(is_caught(protocol, how, 200), "{protocol} {how:?} was not caught");
        }
    }
}

#[test]
fn random_histories_catch_a_snapshot_that_misses_what_is_in_slices() {
    let splits = |protocol: &&ProtocolKind| {
        let db = broken(**protocol, Break::Nothing);
        db.engine().protocol().phases().is_some_and(|phases| phases.length() > Duration::ZERO)
    };
    let mut caught = 0;
    for &protocol in ProtocolKind::ALL.iter().filter(splits) {
        assert!(is_caught(protocol, Break::LeavesSlices, 200), "{protocol} was not caught");
        caught += 1;
    }
    assert!(caught > 0);
}

#[test]
fn the_control_passes() {
    for &protocol in ProtocolKind::ALL {
        for seed in 0..5 {
            let judged = histories::judge(broken(protocol, Break::Nothing), true, seed, 4, 40);
            assert_eq!(judged, Ok(()), "{protocol}");
        }
    }
}
