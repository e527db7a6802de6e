//! The names of conditions that EXCEPTION and RAISE use, and their SQLSTATEs.
//!
//! Source: PostgreSQL 15, appendix A.

use crate::error::{Result, SqlError, SqlState};
use crate::routine::plpgsql::tree::Condition;

/// Names that differ from this crate's names of states, and those of states that it does not report itself.
const NAMES: &[(&str, &str)] = &[
    ("sql_statement_not_yet_complete", "03000"),
    ("connection_exception", "08000"),
    ("triggered_action_exception", "09000"),
    ("locator_exception", "0F000"),
    ("invalid_grantor", "0L000"),
    ("diagnostics_exception", "0Z000"),
    ("stacked_diagnostics_accessed_without_active_handler", "0Z002"),
    ("array_element_error", "2202E"),
    ("error_in_assignment", "22005"),
    ("null_value_no_indicator_parameter", "22002"),
    ("invalid_argument_for_power_function", "2201F"),
    ("string_data_length_mismatch", "22026"),
    ("triggered_data_change_violation", "27000"),
    ("invalid_authorization_specification", "28000"),
    ("sql_routine_exception", "2F000"),
    ("function_executed_no_return_statement", "2F005"),
    ("external_routine_exception", "38000"),
    ("external_routine_invocation_exception", "39000"),
    ("savepoint_exception", "3B000"),
    ("transaction_rollback", "40000"),
    ("transaction_integrity_constraint_violation", "40002"),
    ("syntax_error_or_access_rule_violation", "42000"),
    ("insufficient_resources", "53000"),
    ("program_limit_exceeded", "54000"),
    ("object_not_in_prerequisite_state", "55000"),
    ("operator_intervention", "57000"),
    ("system_error", "58000"),
    ("plpgsql_error", "P0000"),
    ("raise_exception", "P0001"),
    ("exclusion_violation", "23P01"),
    ("undefined_file", "58P01"),
    ("duplicate_file", "58P02"),
    ("config_file_error", "F0000"),
    ("invalid_password", "28P01"),
    ("feature_not_supported", "0A000"),
    ("not_null_violation", "23502"),
    ("case_not_found", "20000"),
];

/// The SQLSTATE of a condition's name.
pub(super) fn state_of(name: &str) -> Option<SqlState> {
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, state)| SqlState::new(state));
    known.or_else(|| {
        let states = SqlState::ALL.iter();
        // States that are no errors have no names here.
        let mut errors = states.filter(|(_, state)| !matches!(state.class(), "00" | "01" | "02"));
        errors.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, state)| *state)
    })
}

/// The condition of this name in EXCEPTION WHEN.
///
/// # Errors
/// 42704.
pub(super) fn named(name: &str) -> Result<Condition> {
    if name == "others" {
        return Ok(Condition::Others);
    }
    state_of(name).map(Condition::State).ok_or_else(|| {
        let message = format!("unrecognized exception condition \"{name}\"");
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}

/// The SQLSTATE that five characters are, if they are one.
pub(super) fn state_from(text: &str) -> Option<SqlState> {
    let is_state =
        text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    is_state.then(|| SqlState::new(text))
}

impl Condition {
    /// Returns true if an error meets the condition: a state of a class by its name ending in 000 means the whole
    /// class.
    pub(super) fn is_met_by(self, error: &SqlError) -> bool {
        match self {
            Condition::Others => error.state() != SqlState::ASSERT_FAILURE,
            Condition::State(state) => {
                let is_class = state.as_str().ends_with("000");
                state == error.state() || is_class && state.class() == error.state().class()
            }
        }
    }
}

/// Returns true if a handler may catch an error at all. Errors that end the attempt of the transaction pass: conflicts,
/// deadlocks, cancellations, timeouts, plans that a schema change has made stale, and sequences that have to be
/// refilled.
pub(super) fn may_be_caught(error: &SqlError) -> bool {
    let of_engine = match error.engine() {
        None => true,
        // Of what the engine reports, errors in the data and in the statement leave the transaction as it was.
        Some(_) => matches!(error.state().class(), "22" | "23" | "42"),
    };
    of_engine
        && !error.is_of_stale_plan()
        && error.state() != SqlState::QUERY_CANCELED
        && error.state() != crate::session::SHORTAGE
}
