//! The program in README: it is the one in `readme/program.txt`, and can be started any number of times.
//!
//! It has a target of its own, because it changes the process's current directory: the program's database is `bank` there.

use heddledb::Options;

/// The program, as it stands in README.
mod program {
    include!("readme/program.txt");

    /// Runs it.
    pub fn run() -> Result<()> {
        main()
    }

    /// The balances of both accounts.
    pub fn balances(db: &Database) -> Result<Vec<i64>> {
        let accounts = db.table_of::<Account>()?;
        db.read(|snapshot| snapshot.scan(&accounts, ..)?.map(|account| Ok(account?.balance)).collect())
    }
}

#[test]
fn each_start_of_the_program_transfers_until_the_money_is_spent() {
    let directory = tempfile::tempdir().expect("a directory");
    std::env::set_current_dir(directory.path()).expect("it is there");
    for run in 1..=10 {
        program::run().expect("it runs");
        let db = heddledb::Database::open("bank", Options::default()).expect("it is closed");
        assert_eq!(program::balances(&db), Ok(vec![100 - 10 * run, 10 * run]));
    }
    let error = program::run().expect_err("the account is empty");
    assert_eq!(error.to_string(), "insufficient funds");
    std::env::set_current_dir("/").expect("it is there");
}

#[test]
fn it_is_the_one_in_the_readme() {
    let (readme, program) = (include_str!("../../README.md"), include_str!("readme/program.txt"));
    assert!(
        readme.contains(&format!("```rust,no_run\n{program}```\n")),
        "copy README's program to tests/integration/readme/"
    );
}
