//! The three transactions that only read. The values that they read are not returned, but all of them are
//! looked at.

use std::hint::black_box;

use heddledb::{Action, ActionContext, ProcedureDefinition, Result, Row, fail, key};

use super::reason;
use crate::pause::Pause;
use crate::tatp::tables::{START_TIMES, Tables};

/// `get-subscriber-data`: all columns of a subscriber.
pub(super) fn subscriber_data(
    definition: ProcedureDefinition,
    tables: &Tables,
    pause: Pause,
) -> ProcedureDefinition {
    let own = tables.clone();
    let read = Action::read(&tables.subscriber).key(|args, key| key.push(args.int(0)?)).body(
        move |action: &ActionContext| {
            let row = action.get()?.ok_or_else(|| fail(reason::NO_SUBSCRIBER))?;
            black_box(all_columns(&own, &row)?);
            pause.take();
            Ok(())
        },
    );
    definition.phase([read])
}

/// Something that depends on every column.
fn all_columns(tables: &Tables, row: &Row<'_>) -> Result<i64> {
    let mut sum = row.int(tables.msc_location)? ^ row.int(tables.vlr_location)?;
    sum ^= row.int(tables.subscriber_id)? ^ row.text(tables.number)?.len() as i64;
    for place in 0..tables.bits.len() {
        sum += i64::from(row.boolean(tables.bits[place])?);
        sum += row.int(tables.hexes[place])? + row.int(tables.bytes[place])?;
    }
    Ok(sum)
}

/// `get-new-destination`: where calls are forwarded to at a time, if the facility is active.
pub(super) fn new_destination(
    definition: ProcedureDefinition,
    tables: &Tables,
    pause: Pause,
) -> ProcedureDefinition {
    let is_active = tables.is_active;
    let facility = Action::read(&tables.special_facility)
        .key(|args, key| {
            key.push(args.int(0)?)?;
            key.push(args.int(1)?)
        })
        .body(move |action: &ActionContext| {
            let row = action.get()?.ok_or_else(|| fail(reason::NO_FACILITY))?;
            pause.take();
            if row.boolean(is_active)? { Ok(()) } else { Err(fail(reason::NO_FACILITY)) }
        });
    let (table, end_time, forwarded_to) =
        (tables.call_forwarding.clone(), tables.end_time, tables.forwarded_to);
    let forwarding = Action::read(&tables.call_forwarding)
        .key(|args, key| {
            key.push(args.int(0)?)?;
            key.push(args.int(1)?)
        })
        .body(move |action: &ActionContext| {
            let (args, tx) = (action.args(), action.tx());
            let (subscriber, kind, from, until) = (args.int(0)?, args.int(1)?, args.int(2)?, args.int(3)?);
            let mut destinations = 0;
            for start in START_TIMES.into_iter().filter(|start| *start <= from) {
                if let Some(row) = tx.get(&table, key![subscriber, kind, start])?
                    && until < row.int(end_time)?
                {
                    black_box(row.text(forwarded_to)?);
                    destinations += 1;
                }
            }
            pause.take();
            if destinations > 0 { Ok(()) } else { Err(fail(reason::NO_DESTINATION)) }
        });
    definition.phase([facility, forwarding])
}

/// `get-access-data`: the access information of a type.
pub(super) fn access_data(
    definition: ProcedureDefinition,
    tables: &Tables,
    pause: Pause,
) -> ProcedureDefinition {
    let (numbers, texts) = (tables.access_data, tables.access_texts);
    let read = Action::read(&tables.access_info)
        .key(|args, key| {
            key.push(args.int(0)?)?;
            key.push(args.int(1)?)
        })
        .body(move |action: &ActionContext| {
            let row = action.get()?.ok_or_else(|| fail(reason::NO_ACCESS_INFO))?;
            black_box((row.int(numbers[0])?, row.int(numbers[1])?));
            black_box((row.text(texts[0])?, row.text(texts[1])?));
            pause.take();
            Ok(())
        });
    definition.phase([read])
}
