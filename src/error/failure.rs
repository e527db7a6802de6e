//! From the operating system's errors to the engine's, with the file's name in them.

use std::io;
use std::path::Path;

use super::Error;

/// Too many open files: of the process, and of the system. The same numbers on every Unix that there is a build for.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// Makes an error of a failure to read, open or list.
pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::MissingFile { path: path.display().to_string(), detail: error.to_string() }
        }
        io::ErrorKind::PermissionDenied => {
            Error::NotReadable { path: path.display().to_string(), detail: error.to_string() }
        }
        _ => other("read", path, &error),
    }
}

/// Makes an error of a failure to create, write, rename or sync.
pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| {
        let (name, detail) = (path.display().to_string(), error.to_string());
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::StorageFull { path: name, detail }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Error::NotWritable { path: name, detail }
            }
            _ => other("write", path, &error),
        }
    }
}

fn other(action: &'static str, path: &Path, error: &io::Error) -> Error {
    let (path, detail) = (path.display().to_string(), error.to_string());
    // The standard library has no kind for it.
    if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
        return Error::TooManyFiles { action, path, detail };
    }
    Error::Io { action, path, kind: error.kind(), detail }
}

/// Says that a file is not as it was written.
pub(crate) fn damaged(path: &Path, offset: u64, detail: impl Into<String>) -> Error {
    Error::Damaged { path: path.display().to_string(), offset, detail: detail.into() }
}

/// The defect that an error reports in bytes from a file, for a message that names the file itself.
pub(crate) fn what_is_wrong(error: Error) -> String {
    match error {
        Error::Malformed { detail, .. } => detail,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_has_its_error() {
        let path = Path::new("bank/LOCK");
        let written = |errno| writing(path)(io::Error::from_raw_os_error(errno));
        assert!(matches!(written(28), Error::StorageFull { .. }));
        assert!(matches!(written(30), Error::NotWritable { .. }));
        assert!(matches!(written(13), Error::NotWritable { .. }));
        assert!(matches!(written(5), Error::Io { action: "write", .. }));
        let read = |errno| reading(path)(io::Error::from_raw_os_error(errno));
        assert!(matches!(read(2), Error::MissingFile { .. }));
        assert!(matches!(read(24), Error::TooManyFiles { action: "read", .. }));
        assert!(matches!(written(23), Error::TooManyFiles { action: "write", .. }));
        assert!(matches!(read(13), Error::NotReadable { .. }));
        assert!(read(24).to_string().contains("bank/LOCK"));
    }
}
