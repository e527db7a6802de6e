//! The transactions that write.
//!
//! Four of them know the subscriber by its number only: a first phase asks the secondary index, so the arguments do not
//! tell whose rows they touch, but the values of that phase do.

use heddledb::{
    Action, ActionContext, Args, Predicate, ProcedureDefinition, Range, Result, ValueRef, fail, key, row,
};

use super::{of_number, reason};
use crate::pause::Pause;
use crate::tatp::tables::{BY_NUMBER, Number, TYPES, Tables};

/// The value by which the first phase hands the subscriber on.
const SUBSCRIBER: usize = 0;

/// `update-subscriber-data`: data of a facility, which may not be there, and a bit of the subscriber.
pub(super) fn subscriber_data(
    definition: ProcedureDefinition,
    tables: &Tables,
    pause: Pause,
) -> ProcedureDefinition {
    let (data, bit) = (tables.data_a, tables.bits[0]);
    let facility = Action::write(&tables.special_facility)
        .key(|args, key| {
            key.push(args.int(0)?)?;
            key.push(args.int(1)?)
        })
        .body(move |action: &ActionContext| {
            if !action.exists()? {
                return Err(fail(reason::NO_FACILITY));
            }
            action.update(&[(data, action.args().int(2)?.into())])?;
            pause.take();
            Ok(())
        });
    let subscriber = Action::write(&tables.subscriber).key(|args, key| key.push(args.int(0)?)).body(
        move |action: &ActionContext| {
            // As random as the data, and the check knows which bits the data allow.
            action.update(&[(bit, ValueRef::Bool(action.args().int(2)? % 2 == 1))])?;
            pause.take();
            Ok(())
        },
    );
    definition.phase([facility, subscriber])
}

/// `update-location`: the place where the subscriber of a number is.
pub(super) fn location(
    definition: ProcedureDefinition,
    tables: &Tables,
    pause: Pause,
) -> ProcedureDefinition {
    let definition = definition.refers_to(of_numbered_subscriber(tables));
    let place = tables.vlr_location;
    let update = Action::write(&tables.subscriber)
        .key_from(|_, values, key| key.push(values.int(SUBSCRIBER)?))
        .body(move |action: &ActionContext| {
            action.update(&[(place, action.args().int(1)?.into())])?;
            pause.take();
            Ok(())
        });
    definition.phase([find_subscriber(tables, pause)]).phase([update])
}

/// The predicate that keys do not show: the subscriber whose rows they are. A number is the subscriber's,
/// with zeros before it.
fn of_numbered_subscriber(tables: &Tables) -> Predicate {
    Predicate::on(&tables.subscriber).equals("s_id", |args| args.int(0))
}

/// The phase that finds the subscriber of a number.
fn find_subscriber(tables: &Tables, pause: Pause) -> Action {
    let own = tables.clone();
    Action::read(&tables.subscriber).body(move |action: &ActionContext| {
        let row = of_number(&action.tx(), &own, action.args().int(0)?)?;
        action.set_value(SUBSCRIBER, row.int(own.subscriber_id)?);
        pause.take();
        Ok(())
    })
}

/// `insert-call-forwarding`: for a facility that must be there, from a time on that must be free.
pub(super) fn insert_forwarding(
    definition: ProcedureDefinition,
    tables: &Tables,
    pause: Pause,
) -> ProcedureDefinition {
    let own = tables.clone();
    let facilities = Action::read(&tables.special_facility)
        .key_from(|_, values, key| key.push(values.int(SUBSCRIBER)?))
        .body(move |action: &ActionContext| {
            let (subscriber, wanted) = (action.values().int(SUBSCRIBER)?, action.args().int(1)?);
            let (tx, mut is_there) = (action.tx(), false);
            // The transaction reads all types, and the insert needs one of them.
            for kind in TYPES {
                is_there |= tx.exists(&own.special_facility, key![subscriber, kind])? && kind == wanted;
            }
            pause.take();
            if is_there { Ok(()) } else { Err(fail(reason::NO_FACILITY)) }
        });
    let forwarding = Action::write(&tables.call_forwarding)
        .key_from(|args, values, key| {
            key.push(values.int(SUBSCRIBER)?)?;
            key.push(args.int(1)?)?;
            key.push(args.int(2)?)
        })
        .body(move |action: &ActionContext| {
            let (args, subscriber) = (action.args(), action.values().int(SUBSCRIBER)?);
            let number = Number::new(args.int(4)?);
            action.insert(row![subscriber, args.int(1)?, args.int(2)?, args.int(3)?, number.as_str()])?;
            pause.take();
            Ok(())
        });
    definition
        .refers_to(of_numbered_subscriber(tables))
        .phase([find_subscriber(tables, pause)])
        .phase([facilities, forwarding])
}

/// `delete-call-forwarding`: the one from a time on, which may not be there.
pub(super) fn delete_forwarding(
    definition: ProcedureDefinition,
    tables: &Tables,
    pause: Pause,
) -> ProcedureDefinition {
    let forwarding = Action::write(&tables.call_forwarding)
        .key_from(|args, values, key| {
            key.push(values.int(SUBSCRIBER)?)?;
            key.push(args.int(1)?)?;
            key.push(args.int(2)?)
        })
        .body(move |action: &ActionContext| {
            pause.take();
            if action.delete()? { Ok(()) } else { Err(fail(reason::NO_FORWARDING)) }
        });
    definition
        .refers_to(of_numbered_subscriber(tables))
        .phase([find_subscriber(tables, pause)])
        .phase([forwarding])
}

/// `update-by-number`: subscribers of this many numbers in a row, found by the secondary index; each gets a place one
/// higher, which can be counted afterwards.
pub(super) fn by_number(
    definition: ProcedureDefinition,
    tables: &Tables,
    pause: Pause,
) -> ProcedureDefinition {
    let own = tables.clone();
    let find = Action::read(&tables.subscriber).body(move |action: &ActionContext| {
        let (first, wanted) = (Number::new(action.args().int(0)?), records_of(action.args())?);
        let range = Range::from(key![first.as_str()]).limit(wanted);
        let mut records = 0;
        for row in action.tx().scan_index(&own.subscriber, BY_NUMBER, range)? {
            action.set_value(records, row?.int(own.subscriber_id)?);
            records += 1;
        }
        pause.take();
        if records == wanted { Ok(()) } else { Err(fail(reason::NO_SUBSCRIBER)) }
    });
    let place = tables.msc_location;
    let update = Action::write(&tables.subscriber)
        .each(records_of, |_, _, _| Ok(()))
        .key_from(|_, values, record, key| key.push(values.int(record)?))
        .body(move |action: &ActionContext, _| {
            let row = action.get()?.ok_or_else(|| fail(reason::NO_SUBSCRIBER))?;
            action.update(&[(place, (row.int(place)? + 1).into())])?;
            pause.take();
            Ok(())
        });
    definition.phase([find]).phase([update])
}

/// The number of records that `update-by-number` requests.
fn records_of(args: &Args) -> Result<usize> {
    Ok(usize::try_from(args.int(1)?).unwrap_or_default())
}
