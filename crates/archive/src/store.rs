//! Object storage by its address: a directory, or a bucket of S3 and what speaks its protocol, Google Cloud Storage, or Azure.
//!
//! Credentials come from the environment or from a file, never from the address, and no message repeats them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use tokio::runtime::{Builder, Runtime};
use url::Url;

use crate::error::{ArchiveError, Result};
use crate::objects::{Listed, Objects};

/// Prefixes of the variables of the environment that are given to the storage's client.
const VARIABLES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// Credentials for a storage's client: names in lower case, such as `aws_access_key_id`, and values.
#[derive(Clone, Default)]
pub struct Credentials(BTreeMap<String, String>);

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.0.keys()).finish()
    }
}

impl Credentials {
    /// The variables `AWS_…`, `GOOGLE_…` and `AZURE_…` of the environment, and above them the lines `NAME=VALUE` of a file.
    ///
    /// # Errors
    /// The file cannot be read, may be read by other users, or has another line; the message does not repeat the line.
    pub fn load(file: Option<&Path>) -> Result<Credentials> {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| VARIABLES.iter().any(|prefix| name.starts_with(prefix)));
        let mut all: BTreeMap<_, _> =
            variables.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        if let Some(path) = file {
            all.extend(read_file(path)?);
        }
        Ok(Credentials(all))
    }

    #[cfg(feature = "cloud")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn read_file(path: &Path) -> Result<Vec<(String, String)>> {
    let refuse = |detail: &str| ArchiveError::Refused(format!("credentials in {}: {detail}", path.display()));
    let failed = |error: std::io::Error| refuse(&error.to_string());
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(refuse("other users can read the file; chmod 600 it"));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let one = |(at, line): (usize, &str)| match line.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned())),
        None => Err(refuse(&format!("line {} is not of the form NAME=VALUE", at + 1))),
    };
    lines.map(one).collect()
}

/// Opens an archive: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, `file:///DIRECTORY`, or a directory.
///
/// # Errors
/// The address is wrong, or has a password in it; the directory is not there, and `create` is false.
pub fn open(address: &str, credentials: &Credentials, create: bool) -> Result<Arc<dyn Objects>> {
    let refuse = |detail: String| ArchiveError::Refused(detail);
    if !address.contains("://") {
        return directory(Path::new(address), create);
    }
    let url =
        Url::parse(address).map_err(|error| refuse(format!("the archive's address is no URL: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err(refuse(
            "the archive's address must not have a user, a password or a query in it: give credentials in the environment or \
             in a file"
                .to_owned(),
        ));
    }
    match url.scheme() {
        "file" => {
            let path =
                url.to_file_path().map_err(|()| refuse(format!("{url} is no path of this machine")))?;
            directory(&path, create)
        }
        "s3" | "gs" | "az" => bucket(&url, credentials),
        other => Err(refuse(format!(
            "no archive has an address of {other}://: use s3://, gs://, az://, file:// or a directory"
        ))),
    }
}

fn directory(path: &Path, create: bool) -> Result<Arc<dyn Objects>> {
    let refuse = |detail: String| ArchiveError::Refused(format!("archive {}: {detail}", path.display()));
    if create {
        fs::create_dir_all(path).map_err(|error| refuse(error.to_string()))?;
    } else if !path.is_dir() {
        return Err(refuse("there is no such directory".to_owned()));
    }
    let store = LocalFileSystem::new_with_prefix(path).map_err(|error| refuse(error.to_string()))?;
    Remote::shared(Box::new(store.with_fsync(true)), ObjectPath::default())
}

#[cfg(feature = "cloud")]
fn bucket(url: &Url, credentials: &Credentials) -> Result<Arc<dyn Objects>> {
    // It fails if the process has chosen already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let opened = object_store::parse_url_opts(url, credentials.iter());
    let (store, prefix) = opened.map_err(|error| failed("open", url.path(), &error))?;
    Remote::shared(store, prefix)
}

#[cfg(not(feature = "cloud"))]
fn bucket(url: &Url, _: &Credentials) -> Result<Arc<dyn Objects>> {
    Err(ArchiveError::Refused(format!(
        "{}:// needs a program that was built with cloud storage: cargo build --release --features cloud",
        url.scheme()
    )))
}

/// Objects that a client of `object_store` reaches; its tasks run on the calling thread.
struct Remote {
    store: Box<dyn ObjectStore>,
    prefix: ObjectPath,
    runtime: Runtime,
}

impl Remote {
    fn shared(store: Box<dyn ObjectStore>, prefix: ObjectPath) -> Result<Arc<dyn Objects>> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ArchiveError::Refused(error.to_string()))?;
        Ok(Arc::new(Remote { store, prefix, runtime }))
    }

    fn path(&self, name: &str) -> ObjectPath {
        let parts = name.split('/').filter(|part| !part.is_empty());
        parts.fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// The name of what is there, as the archive knows it.
    fn name(&self, path: &ObjectPath) -> String {
        let inside = path.as_ref().strip_prefix(self.prefix.as_ref()).unwrap_or(path.as_ref());
        inside.trim_start_matches('/').to_owned()
    }
}

fn failed(action: &'static str, object: &str, error: &object_store::Error) -> ArchiveError {
    // What stands behind a question mark may be a signature.
    let reason = error.to_string();
    let words = reason.split(' ').map(|word| match word.split_once('?') {
        Some((before, after)) if !after.is_empty() && before.contains("://") => format!("{before}?…"),
        _ => word.to_owned(),
    });
    let reason = words.collect::<Vec<_>>().join(" ");
    ArchiveError::Unreachable { action, object: object.to_owned(), reason }
}

impl Objects for Remote {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let payload = PutPayload::from(bytes.to_vec());
        let path = self.path(name);
        match self.runtime.block_on(self.store.put_opts(&path, payload, options)) {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(false)
            }
            Err(error) => Err(failed("create", name, &error)),
        }
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(name);
        let read = async { self.store.get(&path).await?.bytes().await };
        match self.runtime.block_on(read) {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed("read", name, &error)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>> {
        let path = self.path(folder);
        let listed = self.runtime.block_on(self.store.list(Some(&path)).try_collect::<Vec<_>>());
        let listed = match listed {
            Ok(listed) => listed,
            Err(object_store::Error::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(failed("list", folder, &error)),
        };
        let named = listed.iter().map(|meta| Listed { name: self.name(&meta.location), bytes: meta.size });
        let mut named: Vec<_> = named.collect();
        named.sort();
        Ok(named)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.path(folder);
        match self.runtime.block_on(self.store.list_with_delimiter(Some(&path))) {
            Ok(listed) => {
                let mut names: Vec<_> = listed.common_prefixes.iter().map(|path| self.name(path)).collect();
                names.sort();
                Ok(names)
            }
            Err(object_store::Error::NotFound { .. }) => Ok(Vec::new()),
            Err(error) => Err(failed("list", folder, &error)),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        match self.runtime.block_on(self.store.delete(&path)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("remove", name, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_objects_and_never_overwrites_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let objects =
            open(directory.path().to_str().expect("text"), &Credentials::default(), true).expect("opened");
        assert_eq!(objects.create("a/b/1", b"one"), Ok(true));
        assert_eq!(objects.create("a/b/1", b"two"), Ok(false));
        assert_eq!(objects.create("a/c", b""), Ok(true));
        assert_eq!(objects.read("a/b/1"), Ok(Some(b"one".to_vec())));
        assert_eq!(objects.read("a/b/2"), Ok(None));
        let listed = |name: &str, bytes| Listed { name: name.to_owned(), bytes };
        assert_eq!(objects.list("a"), Ok(vec![listed("a/b/1", 3), listed("a/c", 0)]));
        assert_eq!(objects.list("x"), Ok(Vec::new()));
        assert_eq!(
            (objects.folders(""), objects.folders("a")),
            (Ok(vec!["a".into()]), Ok(vec!["a/b".into()]))
        );
        assert_eq!(objects.folders("x"), Ok(Vec::new()));
        assert_eq!((objects.remove("a/b/1"), objects.remove("a/b/1")), (Ok(()), Ok(())));
        assert_eq!(objects.read("a/b/1"), Ok(None));
    }

    #[test]
    fn addresses_that_cannot_be_are_refused_without_repeating_a_password() {
        let refused = |address: &str| {
            let error = open(address, &Credentials::default(), false).err().expect("refused");
            error.to_string()
        };
        assert!(refused("ftp://there/x").contains("s3://"));
        assert!(refused("no-such-directory-here").contains("no such directory"));
        for address in ["s3://key:hunter2@bucket/x", "az://container/x?sig=hunter2"] {
            let message = refused(address);
            assert!(message.contains("credentials") && !message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn credentials_are_read_from_a_private_file_and_not_shown() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("keys");
        let write = |text: &str, mode| {
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
            Credentials::load(Some(&path))
        };
        let loaded = write("# keys\nAWS_SECRET_ACCESS_KEY = hunter2\n\n", 0o600).expect("loaded");
        assert_eq!(loaded.0.get("aws_secret_access_key").map(String::as_str), Some("hunter2"));
        assert!(!format!("{loaded:?}").contains("hunter2"));
        let shared = write("A=hunter2", 0o644).expect_err("others can read it").to_string();
        assert!(shared.contains("chmod 600"), "{shared}");
        let wrong = write("A=1\nhunter2", 0o600).expect_err("no pair").to_string();
        assert!(wrong.contains("line 2") && !wrong.contains("hunter2"), "{wrong}");
    }
}
