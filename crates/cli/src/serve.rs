//! `heddle serve`: a database for PostgreSQL clients; `heddle user`: the users that may connect.
//!
//! SIGTERM and SIGINT shut the server down. SIGHUP reloads the settings file; flags and environment variables
//! keep their values of the start, and override it.

mod logging;
mod notify;
mod standby;

use std::io::{self, BufRead, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use heddle_server::server::{Server, ServerError};
use heddle_server::settings::Settings;
use heddle_server::users::{UserError, Users};
use heddledb::{Database, Durability, Options, ProtocolKind, ScheduleKind, ScheduleOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::logging::Log;
use self::notify::notify;
pub use self::standby::{PromoteArguments, promote};
use crate::failure::{Failure, Result};
use crate::{archive, check, output, recovering};

/// Serve a database to PostgreSQL clients.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The database directory, or that of the standby; it is made if it is not there
    #[arg(value_name = "DIR", required_unless_present = "print_settings")]
    directory: Option<PathBuf>,
    /// Address and port to listen on [default: 127.0.0.1:5432]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Port to listen on; 0 takes a free one, and prints it
    #[arg(long, conflicts_with = "listen")]
    port: Option<u16>,
    /// Address and port for metrics, health and the live page by HTTP [default: none]
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// Archive the log and checkpoints there, beside execution: a URL, or a directory [default: none]
    #[arg(long, value_name = "URL")]
    archive: Option<String>,
    /// Serve a standby: replay the log of a database that another server writes, and answer what only reads
    #[arg(long, requires = "log")]
    standby: bool,
    /// The log that the standby replays: file:DIR/log
    #[arg(long, value_name = "URL", requires = "standby")]
    log: Option<String>,
    /// A settings file (TOML)
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Set one setting, as in a settings file; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the settings in force, as a settings file, and end
    #[arg(long)]
    print_settings: bool,
    /// Isolation of transactions [default: auto]
    #[arg(long)]
    protocol: Option<ProtocolKind>,
    /// Choice of the worker queue for a call of a function: random, partition (by --partition-key), predict (to probable
    /// rivals) [default: random]
    #[arg(long, value_name = "NAME")]
    schedule: Option<ScheduleKind>,
    /// The column by whose value partition places calls: its name, or TABLE.COLUMN [default: none]
    #[arg(long, value_name = "COLUMN")]
    partition_key: Option<String>,
    /// Moment at which a commit is answered: group (once it is on disk), async, none [default: group]
    #[arg(long)]
    durability: Option<Durability>,
}

const EXAMPLES: &str = "\
Examples:
  heddle serve shop.heddle                                  then: psql -h 127.0.0.1 -d heddle
  heddle serve shop.heddle --port 0 --protocol phased --schedule predict
  heddle serve shop.heddle --settings heddle.toml --set max_connections=200
  heddle serve shop.heddle --settings heddle.toml --print-settings
  heddle serve second --standby --log file:shop.heddle/log  then: heddle promote second, once the first has ended
  heddle serve shop.heddle --archive s3://backup/shop       then: heddle restore --from s3://backup/shop other.heddle
  heddle user add shop.heddle ada --superuser               from then on, clients need a password";

/// Runs the server until SIGTERM or SIGINT.
///
/// # Errors
/// The settings cannot be used; the database cannot be opened or closed.
pub fn run(arguments: &Arguments) -> Result {
    let settings = settings(arguments)?;
    let Some(directory) = arguments.directory.as_deref().filter(|_| !arguments.print_settings) else {
        return output::print(
            settings.to_toml().map_err(|error| Failure::Usage(error.to_string()))?.trim_end(),
        );
    };
    // Before anything starts: a signal that comes early must not kill a database that is being written.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let log = Log::start(settings.log_format, settings.log_level);
    // With huge pages the thread of each connection takes 2 MB at its first requests of memory, and uses a tenth of it. Where the
    // system knows no such setting, it has none to disable.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    allow_all_descriptors();
    let options = options(&settings)?;
    let archive = archive::of(&settings)?;
    let kept = settings.clone();
    let primary = match arguments.log.as_deref().filter(|_| arguments.standby) {
        Some(url) => {
            let promoted =
                standby::serve((arguments, &log), settings, &options, &mut signals, (directory, url))?;
            let Some(promoted) = promoted else { return Ok(()) };
            promoted
        }
        None => open_and_serve(directory, settings, options)?,
    };
    let Primary { server, db, directory } = &primary;
    let uploader = archive.map(|objects| archive::start(objects, &kept, db, directory)).transpose()?;
    if server.trusts_everybody() {
        output::report(
            "warning: there are no users, so connections from this machine are trusted under any name",
        );
        output::report(format_args!(
            "         add one: heddle user add {} NAME --superuser",
            directory.display()
        ));
    }
    if let Some(http) = server.http_address() {
        output::report(format_args!("live page http://{http}/"));
    }
    output::report(format_args!("ready {}", server.address()));
    notify("READY=1");
    let signal = wait_for_end(&mut signals, || reload(arguments, server, &log));
    notify("STOPPING=1");
    output::report(format_args!("ending: signal {signal}"));
    primary.server.shut_down();
    if let Some(uploader) = uploader {
        uploader.stop();
    }
    Ok(primary.db.close()?)
}

/// A database that is written to, and its server.
struct Primary {
    server: Server,
    db: Database,
    /// The database's directory.
    directory: PathBuf,
}

/// Opens the database in a directory, and serves it.
fn open_and_serve(directory: &Path, settings: Settings, options: Options) -> Result<Primary> {
    standby::refuse_standby(directory)?;
    let server = Server::listen(settings).map_err(failure)?;
    let is_new = !directory.join("MANIFEST").exists();
    let db = open(directory, options)?;
    if is_new {
        output::report(format_args!("created the database {}", directory.display()));
    }
    server.serve(&db).map_err(failure)?;
    Ok(Primary { server, db, directory: directory.to_path_buf() })
}

/// Raises the limit of open files as far as the process may: shells set it to 1024, and a connection needs three. Where the
/// system refuses, the limit stays, and connections beyond it wait for others to end.
fn allow_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Waits for the signal that ends the server.
fn wait_for_end(signals: &mut Signals, mut reload: impl FnMut()) -> i32 {
    for signal in signals.forever() {
        match signal {
            SIGHUP => reload(),
            signal => return signal,
        }
    }
    SIGTERM
}

/// Reads the settings again. If they cannot be used, those in force stay.
fn reload(arguments: &Arguments, server: &Server, log: &Log) {
    let reloaded = settings(arguments).and_then(|settings| {
        let level = settings.log_level;
        server.reload(settings).map_err(failure).inspect(|_| log.set_level(level))
    });
    match reloaded {
        Err(error) => tracing::error!(%error, "the settings were not reloaded: the old ones stay in force"),
        Ok(restart) if restart.is_empty() => tracing::info!("the settings were reloaded"),
        Ok(restart) => tracing::warn!(
            keys = restart.join(", "),
            "the settings were reloaded, but for keys that need a restart"
        ),
    }
}

/// The engine's options.
fn options(settings: &Settings) -> Result<Options> {
    let (protocol, durability) = settings.engine().map_err(|error| Failure::Usage(error.to_string()))?;
    let options = Options::default()
        .durability(durability)
        .memory(|memory| memory.count_long_values(true))
        .diagnostics(|diagnostics| diagnostics.access_trace(settings.http.is_some()));
    let options = match settings.archive {
        Some(_) => options.log(|log| log.archive_hold_bytes(settings.archive_hold_bytes)),
        None => options,
    };
    let options = match settings.max_row_bytes {
        0 => options,
        bytes => options.memory(|memory| memory.limit(bytes)),
    };
    // What ALTER SYSTEM has saved comes before the settings file, and behind the command line and the environment.
    let options = match protocol {
        Some(protocol) if settings.is_given("protocol") => options.protocol(protocol),
        Some(protocol) => options.protocol_unless_saved(protocol),
        None => options,
    };
    let kind = settings.schedule().map_err(|error| Failure::Usage(error.to_string()))?;
    let schedule = ScheduleOptions::from(kind.unwrap_or_default());
    let schedule = match &settings.partition_key {
        Some(column) => schedule.partition_key(column.clone()),
        None => schedule,
    };
    Ok(match settings.is_given("schedule") {
        true => options.schedule(schedule),
        false => options.schedule_unless_saved(schedule),
    })
}

fn settings(arguments: &Arguments) -> Result<Settings> {
    let usage = |message: String| Failure::Usage(message);
    let text = arguments
        .settings
        .as_ref()
        .map(|path| {
            std::fs::read_to_string(path).map_err(|error| usage(format!("{}: {error}", path.display())))
        })
        .transpose()?;
    let mut flags = arguments.set.iter().map(|set| flag(set)).collect::<Result<Vec<_>>>()?.join("\n");
    let listen = arguments.listen.or(arguments.port.map(|port| SocketAddr::from(([127, 0, 0, 1], port))));
    let listen = listen.map(|address| ("listen", address.to_string()));
    let http = arguments.http.map(|address| ("http", address.to_string()));
    let protocol = arguments.protocol.map(|protocol| ("protocol", protocol.to_string()));
    let schedule = arguments.schedule.map(|schedule| ("schedule", schedule.to_string()));
    let partition_key = arguments.partition_key.clone().map(|column| ("partition_key", column));
    let durability = arguments.durability.map(|durability| ("durability", durability.to_string()));
    let archive = arguments.archive.clone().map(|url| ("archive", url));
    let all = [listen, http, protocol, schedule, partition_key, durability, archive];
    for (key, value) in all.into_iter().flatten() {
        flags.push_str(&format!("\n{key} = {}", toml::Value::String(value)));
    }
    let flags = flags.parse().map_err(|error| usage(format!("--set: {error}")))?;
    // Variables that are not valid UTF-8 are not settings of any server.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Settings::load(text.as_deref(), environment, flags).map_err(|error| usage(error.to_string()))
}

/// `KEY=VALUE` as a line of TOML: a value that is none of TOML's is a text.
fn flag(text: &str) -> Result<String> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        Failure::Usage(format!("--set {text}: write it as KEY=VALUE, as in --set max_connections=200"))
    })?;
    let line = format!("{key} = {value}");
    match line.parse::<toml::Table>() {
        Ok(_) => Ok(line),
        Err(_) => Ok(format!("{key} = {}", toml::Value::String(value.to_owned()))),
    }
}

fn failure(error: ServerError) -> Failure {
    match error {
        ServerError::Settings(_) | ServerError::Listen { .. } => Failure::Usage(error.to_string()),
        other => Failure::Failed(other.to_string()),
    }
}

fn open(directory: &Path, options: Options) -> Result<Database> {
    Ok(Database::open(directory, recovering::shown(options))?)
}

/// Users that may connect.
#[derive(Args)]
pub struct UserArguments {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Subcommand)]
enum UserCommand {
    /// Add a user; the password is read from the terminal, or from standard input
    Add {
        /// The database directory, which no server may have open
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        name: String,
        /// The user may do everything
        #[arg(long)]
        superuser: bool,
    },
    /// Remove a user
    Drop {
        /// The database directory, which no server may have open
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        name: String,
    },
    /// List the users
    List {
        /// The database directory; of one that a server has open, what is durable now
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// Runs `heddle user`.
pub fn user(arguments: &UserArguments) -> Result {
    let users = |directory: &Path| {
        let db = open(directory, Options::default())?;
        let users = Users::open(&db).map_err(|error| Failure::Failed(error.message().to_owned()))?;
        Ok::<_, Failure>((users, db))
    };
    match &arguments.command {
        UserCommand::Add { directory, name, superuser } => {
            let (users, db) = users(directory)?;
            let all = users.list();
            if !superuser && !all.iter().any(|user| user.is_superuser) {
                return Err(without_superuser(directory, name));
            }
            users.add(name, &password()?, *superuser).map_err(user_failure)?;
            Ok(db.close()?)
        }
        UserCommand::Drop { directory, name } => {
            let (users, db) = users(directory)?;
            let all = users.list();
            let mut others = all.iter().filter(|user| user.name != *name).peekable();
            let is_last = all.iter().any(|user| user.name == *name && user.is_superuser)
                && others.peek().is_some()
                && !others.any(|user| user.is_superuser);
            if is_last {
                return Err(Failure::Usage(format!(
                    "{name} is the last superuser, and the other users could create nothing and grant nothing; drop them first, or add \
                     another superuser"
                )));
            }
            users.remove(name).map_err(user_failure)?;
            Ok(db.close()?)
        }
        UserCommand::List { directory } => {
            let opened = check::open_beside(directory)?;
            let users = Users::open(opened.database())
                .map_err(|error| Failure::Failed(error.message().to_owned()))?;
            for user in users.list() {
                let kind = if user.is_superuser { "superuser" } else { "user" };
                output::print(format_args!("{}\t{kind}", user.name))?;
            }
            drop(users);
            opened.close()
        }
    }
}

/// Refuses the first user of a database if it is no superuser: from the first password on no connection is trusted under any name.
fn without_superuser(directory: &Path, name: &str) -> Failure {
    Failure::Usage(format!(
        "with {name} as the only user no client could create a table: from the first user on, connections need a password; give --superuser, \
         or add a superuser first (heddle user add {} NAME --superuser)",
        directory.display()
    ))
}

fn user_failure(error: UserError) -> Failure {
    match error {
        UserError::Sql(_) => Failure::Failed(error.to_string()),
        other => Failure::Usage(other.to_string()),
    }
}

/// The first line of standard input; a terminal shows a prompt, and not what is typed.
fn password() -> Result<String> {
    if io::stdin().is_terminal() {
        return Ok(rpassword::prompt_password("password: ")?);
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_a_line_of_toml_or_a_text() {
        for (flag_text, expected) in
            [("a=1", "a = 1"), ("a=true", "a = true"), ("a=x y", "a = \"x y\""), ("a=\"q\"", "a = \"q\"")]
        {
            assert_eq!(flag(flag_text).expect("it has a value"), expected);
        }
        assert!(flag("max_connections").is_err());
    }
}
