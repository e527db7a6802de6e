//! The two transactions.

use heddledb::{
    Action, ActionContext, DataType, Database, Error, Predicate, Procedure, ProcedureDefinition, Range,
    Result, ValueRef, key, row,
};

use super::{Bookings, Tables};

/// The place of the booking's number, of both transactions.
pub(super) const NUMBER: usize = 0;
/// Places of a stay's other arguments.
const FIRST_NIGHT: usize = 1;
const LAST_NIGHT: usize = 2;
/// The place of a tour's other argument.
const GUIDE: usize = 1;

/// Registers `stay` and `tour`.
pub(super) fn register(db: &Database, tables: &Tables, settings: &Bookings) -> Result<[Procedure; 2]> {
    let (mut stay, mut tour) = (stay(tables, settings), tour(tables, settings));
    if settings.declared {
        let nights = Predicate::on(&tables.night)
            .between("id", |args| Ok((args.int(FIRST_NIGHT)?, args.int(LAST_NIGHT)?)));
        let guide = Predicate::on(&tables.booking).sets("guide", |args| args.int(GUIDE));
        (stay, tour) = (stay.refers_to(nights), tour.refers_to(guide));
    }
    Ok([db.register_anonymous(stay)?, db.register_anonymous(tour)?])
}

fn stay(tables: &Tables, settings: &Bookings) -> ProcedureDefinition {
    let (night, guests, pause) = (tables.night.clone(), tables.guests, settings.pause);
    let insert = insert(tables, |action| {
        let args = action.args();
        action.insert(row![args.int(NUMBER)?, args.int(FIRST_NIGHT)?, args.int(LAST_NIGHT)?, ValueRef::Null])
    });
    // Without a key: the nights are found by a range.
    let raise = Action::write(&tables.night).body(move |action| {
        let (tx, args) = (action.tx(), action.args());
        let nights = Range::from(key![args.int(FIRST_NIGHT)?]).to(key![args.int(LAST_NIGHT)? + 1]);
        let rows = tx.scan(&night, nights)?.map(|row| {
            let row = row?;
            Ok((row.int("id")?, row.int(guests)?))
        });
        for (id, before) in rows.collect::<Result<Vec<_>>>()? {
            pause.take();
            tx.update(&night, key![id], &[(guests, (before + 1).into())])?;
        }
        Ok(())
    });
    ProcedureDefinition::new("stay")
        .parameter("number", DataType::Int64)
        .parameter("first_night", DataType::Int64)
        .parameter("last_night", DataType::Int64)
        .phase([insert, raise])
}

fn tour(tables: &Tables, settings: &Bookings) -> ProcedureDefinition {
    let (guide, tours, pause) = (tables.guide.clone(), tables.tours, settings.pause);
    let insert = insert(tables, |action| {
        let args = action.args();
        action.insert(row![args.int(NUMBER)?, ValueRef::Null, ValueRef::Null, args.int(GUIDE)?])
    });
    // Without a key: only the inserted value tells whose row is changed.
    let raise = Action::write(&tables.guide).body(move |action| {
        let (tx, id) = (action.tx(), action.args().int(GUIDE)?);
        let missing = || Error::MissingKey { table: super::GUIDE.to_owned(), key: id.to_string() };
        let before = tx.get(&guide, key![id])?.ok_or_else(missing)?.int(tours)?;
        pause.take();
        tx.update(&guide, key![id], &[(tours, (before + 1).into())])
    });
    ProcedureDefinition::new("tour")
        .parameter("number", DataType::Int64)
        .parameter("guide", DataType::Int64)
        .phase([insert, raise])
}

fn insert(
    tables: &Tables,
    body: impl Fn(&ActionContext<'_, '_>) -> Result<()> + Send + Sync + 'static,
) -> Action {
    Action::write(&tables.booking).key(|args, key| key.push(args.int(NUMBER)?)).body(body)
}
