//! Errors: their SQLSTATEs, and what the engine's become.

use super::*;

#[test]
fn an_error_is_one_pointer_wide() {
    assert_eq!(size_of::<SqlError>(), size_of::<usize>());
}

#[test]
fn states_are_five_characters_and_differ() {
    for (at, (name, state)) in SqlState::ALL.iter().enumerate() {
        assert!(state.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric()), "{name}");
        assert!(SqlState::ALL[..at].iter().all(|(_, other)| other != state), "{name} repeats {state}");
    }
}

#[test]
fn the_first_position_stays() {
    let error = SqlError::new(SqlState::SYNTAX_ERROR, "no").at(3).at(9);
    assert_eq!(error.position(), Some(3));
    assert_eq!(error.without_position().position(), None);
}

#[test]
fn an_error_prints_state_message_detail_and_hint() {
    let error = SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero").with_detail("d").with_hint("h");
    assert_eq!(error.to_string(), "22012: division by zero (d); h");
}

#[test]
fn the_engines_errors_keep_their_state() {
    let error = SqlError::from(heddledb::Error::Conflict);
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
    assert!(error.is_retryable());
    assert_eq!(error.engine(), Some(&heddledb::Error::Conflict));
}
