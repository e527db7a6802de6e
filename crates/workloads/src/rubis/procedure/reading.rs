//! The twelve transactions that only read.

use std::hint::black_box;

use heddledb::{
    Action, ActionContext, Column, DataType, ProcedureDefinition, Range, Result, Row, Table, key,
};

use super::{Look, missing};
use crate::pause::Pause;
use crate::rubis::lists::{Entry, entries};
use crate::rubis::tables::{CATEGORIES, REGIONS, Tables};
use crate::rubis::transaction::{
    ABOUT_ME, AUTHENTICATE, BROWSE_CATEGORIES, BROWSE_REGIONS, COMMENT_FORM, NAMES, REGISTER_USER,
    SEARCH_CATEGORY, SEARCH_REGION, VIEW_USER,
};

/// The number of the value that says what the second phase reads.
const FOUND: usize = 0;
/// The place of `view-bid-history`.
const HISTORY: usize = VIEW_USER + 1;
/// Rows of each kind on a user's page.
const ON_A_PAGE: usize = 20;

/// The definitions, each at its place.
pub(super) fn definitions(tables: &Tables, pause: Pause) -> Result<Vec<ProcedureDefinition>> {
    (0..REGISTER_USER).map(|place| definition(place, tables, pause)).collect()
}

fn definition(place: usize, tables: &Tables, pause: Pause) -> Result<ProcedureDefinition> {
    let new = ProcedureDefinition::new(NAMES[place]);
    let item = || look_at(&tables.item, "item", |look| look.id, pause);
    let user = |key_of: fn(Look) -> i64| look_at(&tables.user, "user", key_of, pause);
    let own = |table| owned(table, pause);
    let items_of = |lists| -> Result<_> {
        let list = list(lists, "newest", Found::Rows, pause)?;
        Ok([list, all(&tables.item, pause)?])
    };
    let in_two_phases =
        |[first, second]: [Action; 2]| ProcedureDefinition::new(NAMES[place]).phase([first]).phase([second]);
    Ok(match place {
        BROWSE_CATEGORIES => unused(new).phase([names(&tables.category, CATEGORIES, pause)?]),
        BROWSE_REGIONS => unused(new).phase([names(&tables.region, REGIONS, pause)?]),
        SEARCH_CATEGORY => in_two_phases(items_of(&tables.category_items)?),
        SEARCH_REGION => in_two_phases(items_of(&tables.region_items)?),
        VIEW_USER => new.phase([user(|look| look.id)?, own(&tables.comment)?]),
        HISTORY => {
            let bids = list(&tables.item_bids, "highest", Found::Users, pause)?;
            new.phase([item()?, bids]).phase([all(&tables.user, pause)?])
        }
        COMMENT_FORM => new.phase([item()?, user(|look| look.user)?]),
        AUTHENTICATE => new.phase([user(|look| look.id)?]),
        ABOUT_ME => {
            let own = [own(&tables.bid)?, own(&tables.buy_now)?, own(&tables.comment)?];
            new.phase([user(|look| look.id)?].into_iter().chain(own))
        }
        // The item's page, and the forms for a bid and a purchase.
        _ => new.phase([item()?, winner(tables, pause)?]),
    })
}

/// The arguments of the others, for a transaction that has none: visitors give all of them the same.
fn unused(definition: ProcedureDefinition) -> ProcedureDefinition {
    definition.parameter("id", DataType::Int64).parameter("user", DataType::Int64)
}

/// The columns of a table, all of which are read.
fn columns(table: &Table) -> Result<Vec<Column>> {
    table.definition().columns().iter().map(|column| table.column(&column.name)).collect()
}

fn see(row: &Row<'_>, columns: &[Column]) -> Result<()> {
    columns.iter().try_for_each(|column| {
        black_box(row.get(*column)?);
        Ok(())
    })
}

/// Reads the names of all regions, or all categories.
fn names(table: &Table, count: i64, pause: Pause) -> Result<Action> {
    let columns = columns(table)?;
    let each =
        Action::read(table).each(move |_| Ok(count as usize), |_, number, key| key.push(1 + number as i64));
    Ok(each.body(move |action, _| {
        see(&action.get()?.ok_or_else(|| missing("name"))?, &columns)?;
        pause.take();
        Ok(())
    }))
}

/// Reads a row that must be there.
fn look_at(table: &Table, what: &'static str, key_of: fn(Look) -> i64, pause: Pause) -> Result<Action> {
    let columns = columns(table)?;
    let look = Action::read(table).with::<Look>().key(move |look, key| key.push(key_of(look)));
    Ok(look.body(move |_, action| {
        see(&action.get()?.ok_or_else(|| missing(what))?, &columns)?;
        pause.take();
        Ok(())
    }))
}

/// Reads who is winning an auction.
fn winner(tables: &Tables, pause: Pause) -> Result<Action> {
    let winner = tables.item_bids.column("winner")?;
    let look = Action::read(&tables.item_bids).with::<Look>().key(|look, key| key.push(look.id));
    Ok(look.body(move |_, action| {
        black_box(action.get()?.ok_or_else(|| missing("item"))?.get(winner)?);
        pause.take();
        Ok(())
    }))
}

/// The use of a list's entries.
#[derive(Clone, Copy)]
enum Found {
    /// Their rows are read.
    Rows,
    /// Their users are read.
    Users,
}

/// Reads a list, for the next phase.
fn list(table: &Table, column: &str, found: Found, pause: Pause) -> Result<Action> {
    let column = table.column(column)?;
    let look = Action::read(table).with::<Look>().key(|look, key| key.push(look.id));
    Ok(look.body(move |_, action| {
        let row = action.get()?.ok_or_else(|| missing("list"))?;
        let key_of = |((_, number), user): (Entry, i64)| match found {
            Found::Rows => number,
            Found::Users => user,
        };
        let mut keys: Vec<i64> = entries(&row, column)?.into_iter().map(key_of).collect();
        keys.sort_unstable();
        keys.dedup();
        action.set_any(FOUND, keys);
        pause.take();
        Ok(())
    }))
}

/// Reads the rows that the first phase has found.
fn all(table: &Table, pause: Pause) -> Result<Action> {
    let (of, columns) = (table.clone(), columns(table)?);
    Ok(Action::read(table).body(move |action: &ActionContext| {
        let keys = action.values().any::<Vec<i64>>(FOUND)?;
        let keys = keys.iter().map(|id| key![*id]);
        action.tx().get_each(&of, keys, |row| row.map_or(Ok(()), |row| see(&row, &columns)))?;
        pause.take();
        Ok(())
    }))
}

/// Reads a user's newest rows of a table.
fn owned(table: &Table, pause: Pause) -> Result<Action> {
    let (of, columns) = (table.clone(), columns(table)?);
    let look = Action::read(table).with::<Look>().key(|look, key| key.push(look.id));
    Ok(look.body(move |look, action| {
        let newest = Range::prefix(key![look.id]).reverse().limit(ON_A_PAGE);
        for row in action.tx().scan(&of, newest)? {
            see(&row?, &columns)?;
        }
        pause.take();
        Ok(())
    }))
}
