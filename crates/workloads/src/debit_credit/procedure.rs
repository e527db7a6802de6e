//! The one transaction.

use heddledb::{
    Action, ActionContext, Args, ColumnName, DataType, Database, Error, Output, Procedure,
    ProcedureDefinition, Result, Row, fail, key, row,
};

use super::DebitCredit;
use super::tables::Tables;
use crate::pause::Pause;

/// The reason of a call whose access code is wrong.
pub(crate) const BAD_CODE: &str = "wrong access code";

/// The reason of a call that would draw an account below its floor.
pub(crate) const BELOW_FLOOR: &str = "below the balance floor";

/// Places of the call's arguments.
pub(super) mod argument {
    pub const ACCOUNT_BRANCH: usize = 0;
    pub const ACCOUNT: usize = 1;
    pub const BRANCH: usize = 2;
    pub const TELLER: usize = 3;
    pub const AMOUNT: usize = 4;
    pub const CODE: usize = 5;
    pub const CALLER: usize = 6;
    pub const SEQUENCE: usize = 7;
}
use argument::*;

/// Registers the procedure: one phase of four actions. The account is first, because it is the one that can
/// fail.
pub(super) fn register(db: &Database, tables: &Tables, settings: &DebitCredit) -> Result<Procedure> {
    let pause = settings.pause;
    let mut definition = ProcedureDefinition::new("debit-credit");
    for name in ["account_branch", "account", "branch", "teller", "amount", "code", "caller", "sequence"] {
        definition = definition.parameter(name, DataType::Int64);
    }
    db.register_anonymous(definition.phase([
        if settings.tpc_b { tpc_b_account(tables, pause) } else { account_action(tables, pause) },
        teller_action(tables, pause),
        branch_action(tables, pause),
        history_action(tables, pause),
    ]))
}

/// Runs the same transaction on the caller's own thread, and without the procedure, so that tables may change
/// meanwhile.
pub(super) fn run_closure(
    db: &Database,
    tables: &Tables,
    settings: &DebitCredit,
    args: &Args,
) -> Result<Output> {
    let int = |place| args.int(place);
    let amount = int(AMOUNT)?;
    db.run(|tx| {
        let key = key![int(ACCOUNT_BRANCH)?, int(ACCOUNT)?];
        let account = tx.get(&tables.account, key)?.ok_or_else(|| missing("account", args))?;
        if !settings.tpc_b {
            check_account(args, &account, ("balance", "floor", "code"))?;
        }
        tx.add(&tables.account, key, "balance", amount)?;
        tx.add(&tables.teller, key![int(BRANCH)?, int(TELLER)?], "balance", amount)?;
        tx.add(&tables.branch, key![int(BRANCH)?], "balance", amount)?;
        tx.insert(&tables.history, history_row(args)?)?;
        Ok(Output::default())
    })
}

fn account_action(tables: &Tables, pause: Pause) -> Action {
    let (balance, floor, code) = (tables.account_balance, tables.account_floor, tables.account_code);
    Action::write(&tables.account)
        .key(|args, key| {
            key.push(args.int(ACCOUNT_BRANCH)?)?;
            key.push(args.int(ACCOUNT)?)
        })
        .body(move |action: &ActionContext| {
            let account = action.get()?.ok_or_else(|| missing("account", action.args()))?;
            check_account(action.args(), &account, (balance, floor, code))?;
            action.add(balance, action.args().int(AMOUNT)?)?;
            pause.take();
            Ok(())
        })
}

/// TPC-B's (clause 1.2): nothing is checked, and the new balance is returned.
fn tpc_b_account(tables: &Tables, pause: Pause) -> Action {
    let balance = tables.account_balance;
    Action::write(&tables.account)
        .key(|args, key| {
            key.push(args.int(ACCOUNT_BRANCH)?)?;
            key.push(args.int(ACCOUNT)?)
        })
        .body(move |action: &ActionContext| {
            let account = action.get()?.ok_or_else(|| missing("account", action.args()))?;
            let amount = action.args().int(AMOUNT)?;
            let new_balance = account.int(balance)?.saturating_add(amount);
            action.add(balance, amount)?;
            action.return_row(vec![new_balance.into()]);
            pause.take();
            Ok(())
        })
}

fn teller_action(tables: &Tables, pause: Pause) -> Action {
    let balance = tables.teller_balance;
    Action::commute(&tables.teller)
        .key(|args, key| {
            key.push(args.int(BRANCH)?)?;
            key.push(args.int(TELLER)?)
        })
        .body(move |action: &ActionContext| {
            action.add(balance, action.args().int(AMOUNT)?)?;
            pause.take();
            Ok(())
        })
}

fn branch_action(tables: &Tables, pause: Pause) -> Action {
    let balance = tables.branch_balance;
    Action::commute(&tables.branch).key(|args, key| key.push(args.int(BRANCH)?)).body(
        move |action: &ActionContext| {
            action.add(balance, action.args().int(AMOUNT)?)?;
            pause.take();
            Ok(())
        },
    )
}

fn history_action(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.history)
        .key(|args, key| {
            key.push(args.int(BRANCH)?)?;
            key.push(args.int(CALLER)?)?;
            key.push(args.int(SEQUENCE)?)
        })
        .body(move |action: &ActionContext| {
            action.insert(history_row(action.args())?)?;
            pause.take();
            Ok(())
        })
}

/// Checks code and floor.
fn check_account(
    args: &Args,
    account: &Row<'_>,
    (balance, floor, code): (impl ColumnName, impl ColumnName, impl ColumnName),
) -> Result<()> {
    if account.int(code)? != args.int(CODE)? {
        return Err(fail(BAD_CODE));
    }
    let (present, amount) = (account.int(balance)?, args.int(AMOUNT)?);
    // An overflow is the engine's to tell, when it adds.
    if present.saturating_add(amount) < account.int(floor)? {
        return Err(fail(BELOW_FLOOR));
    }
    Ok(())
}

fn history_row(args: &Args) -> Result<[heddledb::ValueRef<'static>; 7]> {
    Ok(row![
        args.int(BRANCH)?,
        args.int(CALLER)?,
        args.int(SEQUENCE)?,
        args.int(TELLER)?,
        args.int(ACCOUNT_BRANCH)?,
        args.int(ACCOUNT)?,
        args.int(AMOUNT)?,
    ])
}

fn missing(table: &str, args: &Args) -> Error {
    Error::MissingKey { table: table.to_owned(), key: format!("{args:?}") }
}
