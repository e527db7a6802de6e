//! A file that is there as a whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a file: what `write` gives it takes the place of an older file of this name once all of it is written and synced. If `write`
/// fails, the older file stays as it was, or there is none. A path that names no ordinary file (a pipe, a terminal) is written to directly.
///
/// ```
/// use std::io::Write;
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("items.csv");
/// let failed = heddledb_transfer::write_file(&path, |mut file| {
///     writeln!(file, "id,name")?;
///     Err::<(), _>(std::io::Error::other("no more"))
/// });
/// assert!(failed.is_err() && !path.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of `write`; the file, or one beside it, cannot be written.
pub fn write_file<T, E: From<io::Error>>(
    path: impl AsRef<Path>,
    write: impl FnOnce(&File) -> Result<T, E>,
) -> Result<T, E> {
    let path = path.as_ref();
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    // Where the path is a link, the file that it leads to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if target.exists() && !target.is_file() {
        let file = File::options().write(true).open(&target).map_err(named)?;
        return write(&file);
    }
    let part = Part::beside(&target);
    let file = File::create(&part.path).map_err(named)?;
    if let Ok(older) = fs::metadata(&target) {
        file.set_permissions(older.permissions()).map_err(named)?;
    }
    let written = write(&file)?;
    file.sync_all().map_err(named)?;
    fs::rename(&part.path, &target).map_err(named)?;
    Ok(written)
}

/// A file under a name of its own, until it is renamed; what is left of it is removed.
struct Part {
    path: PathBuf,
}

impl Part {
    fn beside(target: &Path) -> Part {
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.part", std::process::id()));
        Part { path: target.with_file_name(name) }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After the rename there is none.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(place: &Path) -> Vec<String> {
        let entries = fs::read_dir(place).expect("a directory");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        names.sort();
        names
    }

    fn put(path: &Path, text: &str) -> io::Result<()> {
        write_file(path, |mut file| file.write_all(text.as_bytes()))
    }

    #[test]
    fn a_file_is_made_and_replaced_and_nothing_else_is_left() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("a.csv");
        for text in ["first", "2"] {
            put(&path, text).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
        }
        assert_eq!(names(place.path()), ["a.csv"]);
    }

    #[test]
    fn one_that_failed_leaves_the_older_file_or_none() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("a.csv");
        let fail = || {
            write_file(&path, |mut file| {
                file.write_all(b"half")?;
                Err::<(), _>(io::Error::other("no more"))
            })
            .expect_err("it fails")
        };
        assert_eq!(fail().to_string(), "no more");
        assert!(names(place.path()).is_empty());
        put(&path, "kept").expect("written");
        fail();
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "kept");
        assert_eq!(names(place.path()), ["a.csv"]);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("none/a.csv");
        let message = put(&path, "").expect_err("no directory").to_string();
        assert!(message.contains(&path.display().to_string()), "{message}");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_ordinary_file_is_written_to_and_links_are_followed() {
        let place = tempfile::tempdir().expect("a directory");
        put(Path::new("/dev/null"), "gone").expect("written");
        assert!(!Path::new("/dev/null").is_file());
        let (file, link) = (place.path().join("file"), place.path().join("link"));
        fs::write(&file, "older").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        put(&link, "newer").expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "newer");
    }
}
