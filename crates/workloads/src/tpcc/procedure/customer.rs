//! Customers by last name: of all that share it, in the order of their first names, the one in the middle.

use heddledb::{Action, ActionContext, Range, Result, key};

use super::{missing, push};
use crate::pause::Pause;
use crate::tpcc::random_values::LastName;
use crate::tpcc::tables::{BY_NAME, Tables};

/// An action that finds the customer of a last name in a district, and sets its number as a value. `district`: the
/// places of warehouse and district; `name`: that of the name's number.
pub(super) fn find_by_name(
    tables: &Tables,
    district: [usize; 2],
    name: usize,
    value: usize,
    pause: Pause,
) -> Result<Action> {
    let (table, id) = (tables.customer.clone(), tables.customer.column("c_id")?);
    let find = Action::read(&tables.customer).key(move |args, key| push(args, district, key)).body(
        move |action: &ActionContext| {
            let args = action.args();
            let last = LastName::new(args.int(name)?);
            let range = Range::prefix(key![args.int(district[0])?, args.int(district[1])?, last.as_str()]);
            let mut namesakes = Vec::with_capacity(8);
            for row in action.tx().scan_index(&table, BY_NAME, range)? {
                namesakes.push(row?.int(id)?);
            }
            let middle = namesakes.len().saturating_sub(1) / 2;
            let found = namesakes.get(middle).ok_or_else(|| missing("customer", args))?;
            action.set_value(value, *found);
            pause.take();
            Ok(())
        },
    );
    Ok(find)
}
