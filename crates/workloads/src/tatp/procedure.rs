//! The seven transactions, and the update by number that DORA's section 5.5 measures.
//!
//! Actions that may fail are first: then a call that fails has done nothing else.

mod read;
mod write;

use heddledb::{DataType, Database, Procedure, ProcedureDefinition, Range, Result, Row, Tx, fail, key};

use super::tables::{BY_NUMBER, Number, Tables};
use super::transaction;
use crate::pause::Pause;

/// Reasons for which calls fail: the benchmark wants some of them to ask for rows that do not exist.
pub(super) mod reason {
    pub const NO_SUBSCRIBER: &str = "no such subscriber";
    pub const NO_ACCESS_INFO: &str = "no access information";
    pub const NO_FACILITY: &str = "no such special facility";
    pub const NO_DESTINATION: &str = "no call forwarding at this time";
    pub const NO_FORWARDING: &str = "no such call forwarding";
}

/// Registers all transactions, each at its place.
pub(super) fn register_all(db: &Database, tables: &Tables, pause: Pause) -> Result<Vec<Procedure>> {
    let definitions = (0..transaction::NAMES.len()).map(|place| {
        let definition = |parameters| with_parameters(transaction::NAMES[place], parameters);
        match place {
            transaction::GET_SUBSCRIBER_DATA => read::subscriber_data(definition(&["s_id"]), tables, pause),
            transaction::GET_NEW_DESTINATION => {
                let parameters = &["s_id", "sf_type", "start_time", "end_time"];
                read::new_destination(definition(parameters), tables, pause)
            }
            transaction::GET_ACCESS_DATA => {
                read::access_data(definition(&["s_id", "ai_type"]), tables, pause)
            }
            transaction::UPDATE_SUBSCRIBER_DATA => {
                write::subscriber_data(definition(&["s_id", "sf_type", "data_a"]), tables, pause)
            }
            transaction::UPDATE_LOCATION => {
                write::location(definition(&["sub_nbr", "vlr_location"]), tables, pause)
            }
            transaction::INSERT_CALL_FORWARDING => {
                let parameters = &["sub_nbr", "sf_type", "start_time", "end_time", "numberx"];
                write::insert_forwarding(definition(parameters), tables, pause)
            }
            transaction::DELETE_CALL_FORWARDING => {
                write::delete_forwarding(definition(&["sub_nbr", "sf_type", "start_time"]), tables, pause)
            }
            _ => write::by_number(definition(&["first_nbr", "records"]), tables, pause),
        }
    });
    definitions.map(|definition| db.register_anonymous(definition)).collect()
}

fn with_parameters(name: &str, parameters: &[&str]) -> ProcedureDefinition {
    let definition = ProcedureDefinition::new(name);
    parameters
        .iter()
        .fold(definition, |definition, parameter| definition.parameter(*parameter, DataType::Int64))
}

/// The subscriber of a number.
fn of_number<'a>(tx: &Tx<'_, 'a>, tables: &Tables, number: i64) -> Result<Row<'a>> {
    let number = Number::new(number);
    let mut found =
        tx.scan_index(&tables.subscriber, BY_NUMBER, Range::prefix(key![number.as_str()]).limit(1))?;
    found.next().unwrap_or_else(|| Err(fail(reason::NO_SUBSCRIBER)))
}
