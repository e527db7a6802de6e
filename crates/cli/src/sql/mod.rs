//! `heddle sql`: the shell, on a database of this process's own.
//!
//! | file | contents |
//! | --- | --- |
//! | `shell` | what the shell knows; runs statements, prints results, reports errors (`excerpt`) |
//! | `input`, `lexer` | lines become statements, commands and data of COPY |
//! | `meta`, `arguments` | commands with a backslash or a dot, and their arguments |
//! | `buffer`, `settings`, `copy`, `import`, `conditions`, `variables` | what the commands do |
//! | `describe`, `lists` | what is in the database |
//! | `print`, `table`, `target` | results as text, and where they go |
//! | `edit` | the line editor: history, completion |

mod arguments;
mod buffer;
mod conditions;
mod copy;
mod describe;
mod edit;
mod excerpt;
mod import;
mod input;
mod lexer;
mod lists;
mod meta;
mod print;
mod settings;
mod shell;
mod table;
mod target;
mod variables;

use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use clap::Args;
use heddle_sql::Sql;
use heddledb::{Database, Options};

use crate::failure::{Failure, Result};
use crate::output;
use print::Format;
use shell::Shell;

/// Run SQL on a database: from the command line, a file, standard input, or a terminal.
#[derive(Args)]
#[command(after_help = "\
Examples:
  heddle sql bank.heddle                                  a shell; \\? tells its commands
  heddle sql bank.heddle -c 'select count(*) from account'
  heddle sql bank.heddle -f schema.sql --keep-going
  heddle sql bank.heddle --format csv -c 'select * from account' > account.csv")]
pub struct Arguments {
    /// The database directory; it is created if it is not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Run this statement, or command of the shell; repeatable
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    commands: Vec<String>,
    /// Run the statements of this file, after those of -c
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Format of the results
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Go on after an error; the exit code is 1 all the same
    #[arg(long)]
    keep_going: bool,
}

impl Arguments {
    /// Returns true if statements are typed.
    fn is_interactive(&self) -> bool {
        self.commands.is_empty() && self.file.is_none() && std::io::stdin().is_terminal()
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result {
    let is_new = !arguments.directory.exists();
    let db = Database::open(&arguments.directory, Options::default())?;
    if is_new && arguments.is_interactive() {
        // A path that was mistyped is seen here.
        output::report(format_args!("a new database: {}", arguments.directory.display()));
    }
    let sql = Sql::new(&db).map_err(reported)?;
    for setting in sql.ignored_settings() {
        output::report(format_args!(
            "warning: a setting that ALTER SYSTEM has saved is not in force: {setting}"
        ));
    }
    let connection = sql.connect(Default::default()).map_err(reported)?;
    let mut shell = Shell::new(sql.clone(), connection, arguments.format, arguments.keep_going);
    shell.directory.clone_from(&arguments.directory);
    let outcome = run_all(arguments, &mut shell);
    drop(shell);
    drop(sql);
    db.close()?;
    outcome
}

fn reported(error: heddle_sql::error::SqlError) -> Failure {
    Failure::Failed(error.to_string())
}

fn run_all(arguments: &Arguments, shell: &mut Shell) -> Result {
    for command in &arguments.commands {
        shell.run_text(command)?;
    }
    if let Some(file) = &arguments.file {
        std::fs::metadata(file).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
        shell.run_file(file)?;
    }
    if arguments.commands.is_empty() && arguments.file.is_none() {
        if std::io::stdin().is_terminal() {
            edit::interact(shell)?;
        } else {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            shell.run_text(&text)?;
        }
    }
    shell.outcome()
}
