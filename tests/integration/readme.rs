//! The program in README: it is the one in `readme/program.txt`, and can be started any number of times.
//!
//! It runs in a process of its own: the program's database is `bank` in the current directory, which all tests of a process share.

use std::process::Command;

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

/// Tells the child process that it is one.
const CHILD: &str = "HEDDLE_README_CHILD";

#[test]
fn each_start_of_the_program_transfers_until_the_money_is_spent() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["readme::child_that_starts_the_program", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .current_dir(&directory)
        .output()
        .expect("a child");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(SPENT),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The last words of the child process.
const SPENT: &str = "the money is spent";

/// In a child process, in a directory of its own.
#[test]
fn child_that_starts_the_program() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    for run in 1..=10 {
        program::run().expect("it runs");
        let db = heddledb::Database::open("bank", Options::default()).expect("it is closed");
        assert_eq!(program::balances(&db), Ok(vec![100 - 10 * run, 10 * run]));
    }
    let error = program::run().expect_err("the account is empty");
    assert_eq!(error.to_string(), "insufficient funds");
    println!("{SPENT}");
}

#[test]
fn it_is_the_one_in_the_readme() {
    let (readme, program) = (include_str!("../../README.md"), include_str!("readme/program.txt"));
    assert!(
        readme.contains(&format!("```rust,no_run\n{program}```\n")),
        "copy README's program to tests/integration/readme/"
    );
}
