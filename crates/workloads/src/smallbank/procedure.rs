//! The five transactions, each one procedure: every account that it touches is known from its arguments.

use heddledb::{
    Action, ActionContext, DataType, Database, Procedure, ProcedureDefinition, Result, ValueRef, fail,
};

use super::tables::{Accounts, Tables};
use super::transaction;
use crate::pause::Pause;

/// Reasons for which calls fail.
pub(super) mod reason {
    pub const NO_CUSTOMER: &str = "no such customer";
    pub const NOT_COVERED: &str = "the amount is not covered";
}

/// Places of the arguments: a customer, an amount in cents; of an amalgamation, a second customer.
const CUSTOMER: usize = 0;
const AMOUNT: usize = 1;
const OTHER: usize = 1;

/// The fee of a check that is not covered, in cents.
pub(super) const PENALTY: i64 = 100;

/// Numbers of values.
const SAVED: usize = 0;
const CHECKED: usize = 1;

/// Registers all transactions, each at its place.
pub(super) fn register_all(db: &Database, tables: &Tables, pause: Pause) -> Result<Vec<Procedure>> {
    let own = |action: Action| action.key(|args, key| key.push(args.int(CUSTOMER)?));
    let Tables { savings, checking, .. } = tables;
    let owner = || own(owner(tables, pause));
    let definitions = (0..transaction::NAMES.len()).map(|place| {
        let second = if place == transaction::AMALGAMATE { "other" } else { "amount" };
        let definition = ProcedureDefinition::new(transaction::NAMES[place])
            .parameter("custid", DataType::Int64)
            .parameter(second, DataType::Int64);
        match place {
            transaction::AMALGAMATE => {
                let other = Action::write(&checking.table)
                    .key(|args, key| key.push(args.int(OTHER)?))
                    .body(receive(checking, pause));
                let empty = [own(empty(savings, SAVED, pause)), own(empty(checking, CHECKED, pause))];
                definition.phase([owner()].into_iter().chain(empty)).phase([other])
            }
            transaction::BALANCE => definition.phase([
                owner(),
                own(read(savings, SAVED, pause)),
                own(read(checking, CHECKED, pause)),
            ]),
            transaction::DEPOSIT_CHECKING => definition.phase([owner(), own(deposit(checking, pause))]),
            transaction::TRANSACT_SAVINGS => definition.phase([owner(), own(transact(savings, pause))]),
            _ => definition
                .phase([owner(), own(read(savings, SAVED, pause))])
                .phase([own(write_check(checking, pause))]),
        }
    });
    definitions.map(|definition| db.register_anonymous(definition)).collect()
}

/// Looks whether there is such a customer.
fn owner(tables: &Tables, pause: Pause) -> Action {
    Action::read(&tables.account).body(move |action: &ActionContext| {
        if !action.exists()? {
            return Err(fail(reason::NO_CUSTOMER));
        }
        pause.take();
        Ok(())
    })
}

fn balance(accounts: &Accounts, action: &ActionContext<'_, '_>) -> Result<i64> {
    action.get()?.ok_or_else(|| fail(reason::NO_CUSTOMER))?.int(accounts.balance)
}

/// Moves an amount into an account, or out of it if it is negative.
fn move_in(accounts: &Accounts, action: &ActionContext<'_, '_>, amount: i64) -> Result<()> {
    let row = action.get()?.ok_or_else(|| fail(reason::NO_CUSTOMER))?;
    let (counted, moved) =
        if amount < 0 { (accounts.moved_out, -amount) } else { (accounts.moved_in, amount) };
    let set = |column, by: i64| Ok((column, ValueRef::Int(row.int(column)? + by)));
    action.update(&[set(accounts.balance, amount)?, set(counted, moved)?, set(accounts.changes, 1)?])
}

/// Reads a balance, for a phase to come.
fn read(accounts: &Accounts, value: usize, pause: Pause) -> Action {
    let own = accounts.clone();
    Action::read(&accounts.table).body(move |action: &ActionContext| {
        action.set_value(value, balance(&own, action)?);
        pause.take();
        Ok(())
    })
}

/// Takes everything out.
fn empty(accounts: &Accounts, value: usize, pause: Pause) -> Action {
    let own = accounts.clone();
    Action::write(&accounts.table).body(move |action: &ActionContext| {
        let all = balance(&own, action)?;
        action.set_value(value, all);
        move_in(&own, action, -all)?;
        pause.take();
        Ok(())
    })
}

/// Takes what another customer's accounts had.
fn receive(
    checking: &Accounts,
    pause: Pause,
) -> impl Fn(&ActionContext<'_, '_>) -> Result<()> + Send + Sync + 'static {
    let own = checking.clone();
    move |action| {
        let all = action.values().int(SAVED)? + action.values().int(CHECKED)?;
        move_in(&own, action, all)?;
        pause.take();
        Ok(())
    }
}

fn deposit(checking: &Accounts, pause: Pause) -> Action {
    let own = checking.clone();
    Action::write(&checking.table).body(move |action: &ActionContext| {
        move_in(&own, action, action.args().int(AMOUNT)?)?;
        pause.take();
        Ok(())
    })
}

fn transact(savings: &Accounts, pause: Pause) -> Action {
    let own = savings.clone();
    Action::write(&savings.table).body(move |action: &ActionContext| {
        let amount = action.args().int(AMOUNT)?;
        if balance(&own, action)? + amount < 0 {
            return Err(fail(reason::NOT_COVERED));
        }
        move_in(&own, action, amount)?;
        pause.take();
        Ok(())
    })
}

fn write_check(checking: &Accounts, pause: Pause) -> Action {
    let own = checking.clone();
    Action::write(&checking.table).body(move |action: &ActionContext| {
        let amount = action.args().int(AMOUNT)?;
        let covered = action.values().int(SAVED)? + balance(&own, action)? >= amount;
        move_in(&own, action, -amount - if covered { 0 } else { PENALTY })?;
        pause.take();
        Ok(())
    })
}
