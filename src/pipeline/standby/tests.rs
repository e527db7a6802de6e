//! Tests of the relation of positions to what was replayed.

use super::*;

fn position(text: &str) -> LogPosition {
    text.parse().expect("a position")
}

/// A state behind these terms' first groups, each with the group before, and a last group.
fn state(terms: &[(Option<&str>, &str)], last: &str) -> State {
    let status = StandbyStatus {
        source: PathBuf::new(),
        position: position(last),
        time: None,
        groups: 0,
        transactions: 0,
        bytes: 0,
        has_caught_up: false,
        failure: None,
    };
    let terms = terms
        .iter()
        .map(|(before, first)| TermStart { before: before.map(position), first: position(first) })
        .collect();
    State { status, terms, is_fenced: false, replayed: None }
}

#[test]
fn a_position_is_there_or_to_come_or_lost() {
    let state = state(&[(None, "3/10"), (Some("3/20"), "4/21"), (Some("4/30"), "7/31")], "7/40");
    for there in ["7/40", "7/31", "7/1", "4/30", "3/20", "3/1", "2/9", "0/9"] {
        assert!(matches!(state.has(position(there)), Reached::Yes), "{there}");
    }
    for to_come in ["7/41", "8/1", "9/100"] {
        assert!(matches!(state.has(position(to_come)), Reached::NotYet), "{to_come}");
    }
    for lost in ["3/21", "4/31", "6/31", "2/10", "0/10"] {
        assert!(matches!(state.has(position(lost)), Reached::Never), "{lost}");
    }
}

#[test]
fn of_a_log_without_groups_only_epochs_are_known() {
    let state = state(&[], "0/12");
    assert!(matches!(state.has(position("5/12")), Reached::Yes));
    assert!(matches!(state.has(position("5/13")), Reached::NotYet));
}
