//! A bank on disk: transfers that are durable when they return, an audit beside them, and recovery.
//!
//! ```sh
//! cargo run -p heddledb --example bank            # in a directory of its own, which is removed
//! cargo run -p heddledb --example bank -- PATH    # kept, and found again
//! ```

use heddledb::{Database, Error, Options, Result, Table, TableOf, fail};

#[derive(Debug, Table)]
struct Account {
    #[table(key)]
    id: i64,
    #[table(check = "balance >= 0")]
    balance: i64,
}

const ACCOUNTS: i64 = 10;
const OPENING_BALANCE: i64 = 100;

/// Fails with a check's violation if the payer has too little: then neither balance has changed.
fn transfer(db: &Database, accounts: &TableOf<Account>, from: i64, to: i64, amount: i64) -> Result<()> {
    db.run(|tx| {
        tx.add(accounts, from, "balance", -amount)?;
        tx.add(accounts, to, "balance", amount)
    })
}

/// The sum of all balances at one moment, beside all transfers.
fn total(db: &Database, accounts: &TableOf<Account>) -> Result<i64> {
    db.read(|snapshot| snapshot.scan(accounts, ..)?.map(|account| Ok(account?.balance)).sum())
}

fn open(path: &std::path::Path) -> Result<(Database, TableOf<Account>)> {
    let db = Database::open(path, Options::default())?;
    let accounts = db.table_of::<Account>()?;
    db.run(|tx| {
        for id in 0..ACCOUNTS {
            if !tx.exists(&accounts, id)? {
                tx.insert(&accounts, &Account { id, balance: OPENING_BALANCE })?;
            }
        }
        Ok(())
    })?;
    Ok((db, accounts))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1) {
        Some(path) => run(path.as_ref())?,
        None => run(tempfile::tempdir()?.path())?,
    }
    Ok(())
}

fn run(path: &std::path::Path) -> Result<()> {
    let (db, accounts) = open(path)?;
    std::thread::scope(|scope| {
        for teller in 0..4 {
            let (db, accounts) = (&db, &accounts);
            scope.spawn(move || {
                for number in 0..100 {
                    let (from, to) = ((teller + number) % ACCOUNTS, (teller * 3 + number * 7 + 1) % ACCOUNTS);
                    match transfer(db, accounts, from, to, 1 + number % 30) {
                        Ok(()) | Err(Error::CheckViolation { .. }) => {}
                        Err(error) => eprintln!("{error}"),
                    }
                }
            });
        }
    });
    let before = total(&db, &accounts)?;
    let poorest = db.read(|snapshot| {
        let mut accounts = snapshot.scan(&accounts, ..)?.collect::<Result<Vec<Account>>>()?;
        accounts.sort_by_key(|account| account.balance);
        accounts.into_iter().next().ok_or_else(|| fail("there is no account"))
    })?;
    println!("{before} in {ACCOUNTS} accounts; the poorest is {poorest:?}");
    drop(accounts);
    db.close()?;

    let (db, accounts) = open(path)?; // recovered
    assert_eq!(total(&db, &accounts)?, before);
    assert_eq!(before, ACCOUNTS * OPENING_BALANCE);
    db.check()?;
    Ok(())
}

#[test]
fn it_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    run(directory.path()).expect("the example runs");
    run(directory.path()).expect("and again, on what it has left");
}
