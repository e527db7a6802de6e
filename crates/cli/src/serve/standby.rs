//! `heddle serve --standby`: a server that replays another one's log and answers what only reads; and `heddle promote`.
//!
//! The directory of a standby holds no data, only what the two commands exchange:
//! ```text
//! D2/LOCK       held by the server
//! D2/STANDBY    the database that it replays
//! D2/promote    a request to promote it: a name that no other request has
//! D2/promoted   the answer: that name, and what became of it
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use heddle_server::server::Server;
use heddle_server::settings::Settings;
use heddledb::{Database, Error, Options, StandbyError};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::logging::Log;
use super::notify::notify;
use super::{Arguments, Primary, failure, reload};
use crate::failure::{Failure, Result};
use crate::{output, recovering};

const LOCK: &str = "LOCK";
const STANDBY: &str = "STANDBY";
const REQUEST: &str = "promote";
const ANSWER: &str = "promoted";
/// The first word of an answer that is none of success.
const REFUSED: &str = "refused";

/// Interval at which the server looks for requests, signals and failures, and `heddle promote` for its answer.
const LOOK: Duration = Duration::from_millis(50);
/// The pause before a standby that has stopped is loaded again.
const RELOAD_PAUSE: Duration = Duration::from_secs(1);

/// Make a standby the database that it replays.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PromoteArguments {
    /// The standby's directory, as heddle serve --standby has it
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The longest time to wait until it is promoted, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

const EXAMPLES: &str = "\
Examples:
  heddle serve shop.heddle                                              the database
  heddle serve second --standby --log file:shop.heddle/log --port 5433  its standby
  heddle promote second                                                 once the first server has ended";

/// The directory of the log that a URL names.
///
/// # Errors
/// It is no URL of a directory.
fn log_directory(url: &str) -> Result<PathBuf> {
    let path = url.strip_prefix("file:").map(|path| path.strip_prefix("//").unwrap_or(path));
    match path.filter(|path| !path.is_empty()) {
        Some(path) => Ok(PathBuf::from(path)),
        None => {
            let text = format!("--log {url}: not a log's directory; write it as file:DIR/log");
            Err(Failure::Usage(text))
        }
    }
}

/// A standby's directory, locked for as long as this lives.
struct StandbyDirectory {
    path: PathBuf,
    _lock: File,
}

impl StandbyDirectory {
    /// Takes a directory, which is made if it is not there.
    ///
    /// # Errors
    /// It holds something else; another standby has it.
    fn open(path: &Path) -> Result<StandbyDirectory> {
        fs::create_dir_all(path)?;
        let ours = [LOCK, STANDBY, REQUEST, ANSWER];
        for entry in fs::read_dir(path)? {
            let name = entry?.file_name();
            if !ours.iter().any(|own| name.to_str().is_some_and(|name| name.starts_with(own))) {
                let (path, name) = (path.display(), name.display());
                let text = format!("{path}: it holds {name}; a standby needs a directory of its own");
                return Err(Failure::Usage(text));
            }
        }
        let lock = lock_file(path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::Failed(format!("{}: another standby has it", path.display())));
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        for left in [REQUEST, ANSWER] {
            remove(&path.join(left))?;
        }
        Ok(StandbyDirectory { path: path.to_path_buf(), _lock: lock })
    }

    /// Notes the database that it replays.
    fn note_source(&self, source: &Path) -> Result {
        replace(&self.path.join(STANDBY), &format!("{}\n", source.display()))
    }

    /// The name of a request to promote it, if there is one.
    fn request(&self) -> Option<String> {
        fs::read_to_string(self.path.join(REQUEST)).ok()
    }

    fn answer(&self, request: &str, outcome: std::result::Result<&str, &Failure>) -> Result {
        let text = match outcome {
            Ok(text) => format!("{request}\n{text}\n"),
            Err(failure) => format!("{request}\n{REFUSED} {failure}\n"),
        };
        remove(&self.path.join(REQUEST))?;
        replace(&self.path.join(ANSWER), &text)
    }
}

fn lock_file(directory: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).read(true).open(directory.join(LOCK))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Gives a file this content, all of it at once.
fn replace(path: &Path, content: &str) -> Result {
    let new = path.with_extension("new");
    fs::write(&new, content)?;
    Ok(fs::rename(&new, path)?)
}

/// Says that a directory is a standby's, if it is one: it is no database.
pub(super) fn refuse_standby(directory: &Path) -> Result {
    let Ok(source) = fs::read_to_string(directory.join(STANDBY)) else { return Ok(()) };
    let (directory, source) = (directory.display(), source.trim_end());
    Err(Failure::Usage(format!(
        "{directory}: it is the directory of a standby of {source}; serve {source}, or give --standby and --log"
    )))
}

/// The event that ends the wait of a standby.
enum Event {
    Signal(i32),
    /// A request to promote it, by its name.
    Promote(String),
    Failed(Error),
}

/// Serves a standby until a signal ends the process, or until it is promoted: then the database is returned, with the server.
///
/// # Errors
/// The directory or the log cannot be used; the database cannot be loaded.
pub(super) fn serve(
    (arguments, log): (&Arguments, &Log),
    mut settings: Settings,
    options: &Options,
    signals: &mut Signals,
    (directory, url): (&Path, &str),
) -> Result<Option<Primary>> {
    let source = log_directory(url)?;
    let own = StandbyDirectory::open(directory)?;
    let mut server = Server::listen(settings.clone()).map_err(failure)?;
    settings.listen = server.address();
    loop {
        let db = Database::standby(&source, recovering::shown(options.clone()))?;
        let status = db.standby_status().ok_or(Error::Standby(StandbyError::NoStandby))?;
        own.note_source(&status.source)?;
        server.serve(&db).map_err(failure)?;
        output::report(format_args!(
            "standby of {} at position {}",
            status.source.display(),
            status.position
        ));
        output::report(format_args!("ready {}", server.address()));
        notify("READY=1");
        loop {
            match wait(&own, &db, signals, || reload(arguments, &server, log)) {
                Event::Promote(request) => match server.promote().map_err(failure) {
                    Ok(()) => {
                        let (source, position) = (status.source, db.position()?);
                        let shown = source.display();
                        let said = format!("promoted: {shown} is served here, behind position {position}");
                        output::report(&said);
                        own.answer(&request, Ok(&said))?;
                        return Ok(Some(Primary { server, db, directory: source }));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the standby was not promoted");
                        own.answer(&request, Err(&error))?;
                    }
                },
                Event::Signal(signal) => {
                    notify("STOPPING=1");
                    output::report(format_args!("ending: signal {signal}"));
                    server.shut_down();
                    db.close()?;
                    return Ok(None);
                }
                Event::Failed(error) => {
                    tracing::error!(%error, "the standby is loaded again");
                    break;
                }
            }
        }
        // Its clients connect again; meanwhile they learn that it starts up (57P03).
        server.shut_down();
        server = Server::listen(settings.clone()).map_err(failure)?;
        db.close()?;
        thread::sleep(RELOAD_PAUSE);
    }
}

/// Waits for something to do.
fn wait(own: &StandbyDirectory, db: &Database, signals: &mut Signals, mut reload: impl FnMut()) -> Event {
    loop {
        for signal in signals.pending() {
            match signal {
                SIGHUP => reload(),
                signal => return Event::Signal(signal),
            }
        }
        if let Some(request) = own.request() {
            return Event::Promote(request);
        }
        if let Some(failure) = db.standby_status().and_then(|status| status.failure) {
            return Event::Failed(failure);
        }
        thread::sleep(LOOK);
    }
}

/// Asks the server of a standby to promote it, and waits for its answer.
///
/// # Errors
/// There is no such server; it cannot promote its standby; it does not answer in time.
pub fn promote(arguments: &PromoteArguments) -> Result {
    let directory = &arguments.directory;
    let shown = directory.display();
    if !directory.join(STANDBY).exists() {
        return Err(Failure::Usage(format!(
            "{shown}: not a standby's directory; give the one that heddle serve --standby has"
        )));
    }
    let is_served = || -> Result<bool> {
        // Where the lock is free, it is given back at once.
        Ok(matches!(lock_file(directory)?.try_lock(), Err(TryLockError::WouldBlock)))
    };
    let not_served =
        || Failure::Failed(format!("{shown}: no server has it; start heddle serve --standby on it"));
    if !is_served()? {
        return Err(not_served());
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let request = format!("{}-{}", std::process::id(), since.as_nanos());
    replace(&directory.join(REQUEST), &request)?;
    let begun = Instant::now();
    loop {
        // Before the look at the answer: a server that has promoted its standby answers, and then leaves the directory.
        let is_served = is_served()?;
        let text = fs::read_to_string(directory.join(ANSWER)).unwrap_or_default();
        if let Some(answer) = text.strip_prefix(&request) {
            let answer = answer.trim();
            return match answer.strip_prefix(REFUSED) {
                Some(reason) => Err(Failure::Failed(reason.trim().to_owned())),
                None => output::print(answer),
            };
        }
        if !is_served {
            return Err(not_served());
        }
        if begun.elapsed() > Duration::from_secs(arguments.timeout) {
            let text =
                format!("{shown}: no answer for {} s; the server may yet promote it", arguments.timeout);
            return Err(Failure::Failed(text));
        }
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_named_by_a_url_of_a_directory() {
        for (url, path) in [
            ("file:shop/log", "shop/log"),
            ("file:/var/shop/log", "/var/shop/log"),
            ("file:///var/log", "/var/log"),
        ] {
            assert_eq!(log_directory(url).expect("a directory"), Path::new(path));
        }
        for url in ["shop/log", "file:", "kafka://broker/topic"] {
            assert!(log_directory(url).is_err(), "{url}");
        }
    }
}
