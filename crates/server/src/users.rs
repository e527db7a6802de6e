//! The users of a database: rows of an ordinary table of the engine, so that they are durable, and part of backups.
//!
//! # Invariants
//! A password is kept as its SCRAM verifier only.

use heddledb::{DataType, Database, Error, Range, Result, Row, Table, TableDefinition, key, row};

use crate::scram::Verifier;

/// The table's name; names that begin like this are the engine's and the server's own.
const TABLE: &str = "sql.user";

/// What can be wrong with a request for a user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// The name is in use.
    #[error("user {name:?} exists already: drop it first")]
    Exists {
        /// The user's name.
        name: String,
    },
    /// There is no such user.
    #[error("user {name:?} does not exist")]
    Unknown {
        /// The user's name.
        name: String,
    },
    /// A name that no user can have.
    #[error("{name:?} is not a valid user name: use 1 to 63 bytes, without zero bytes")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// A password must not be empty.
    #[error("the password is empty: give one of at least one character")]
    EmptyPassword,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// The engine's.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// A user, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Whether it may do everything.
    pub is_superuser: bool,
}

/// The users of one database.
#[derive(Clone)]
pub struct Users {
    database: Database,
    table: Table,
}

impl Users {
    /// Opens the table of users, and creates it in a database that has none.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn open(database: &Database) -> Result<Users> {
        let definition = TableDefinition::new(TABLE)
            .column("name", DataType::Text)
            .column("verifier", DataType::Text)
            .not_null()
            .column("is_superuser", DataType::Bool)
            .not_null()
            .primary_key(["name"]);
        let table = database.open_table(definition)?;
        Ok(Users { database: database.clone(), table })
    }

    /// Adds a user.
    ///
    /// # Errors
    /// The name is in use or not valid; the password is empty.
    pub fn add(&self, name: &str, password: &str, is_superuser: bool) -> std::result::Result<(), UserError> {
        if name.is_empty() || name.len() > 63 || name.contains('\0') {
            return Err(UserError::InvalidName { name: name.to_owned() });
        }
        if password.is_empty() {
            return Err(UserError::EmptyPassword);
        }
        let verifier = Verifier::new(password)?.to_string();
        let added =
            self.database.run(|tx| tx.insert(&self.table, row![name, verifier.as_str(), is_superuser]));
        match added {
            Err(Error::DuplicateKey { .. }) => Err(UserError::Exists { name: name.to_owned() }),
            added => Ok(added?),
        }
    }

    /// Removes a user. Its connections go on.
    ///
    /// # Errors
    /// There is no such user.
    pub fn remove(&self, name: &str) -> std::result::Result<(), UserError> {
        let removed = self.database.run(|tx| {
            let exists = tx.exists(&self.table, key![name])?;
            if exists {
                tx.delete(&self.table, key![name])?;
            }
            Ok(exists)
        })?;
        if removed { Ok(()) } else { Err(UserError::Unknown { name: name.to_owned() }) }
    }

    /// All users, by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn list(&self) -> Result<Vec<User>> {
        self.database.run(|tx| {
            tx.scan(&self.table, Range::all())?
                .map(|row| {
                    let row = row?;
                    Ok(User {
                        name: row.text("name")?.to_owned(),
                        is_superuser: row.boolean("is_superuser")?,
                    })
                })
                .collect()
        })
    }

    /// Whether there is any user.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        Ok(self.list()?.is_empty())
    }

    /// A user's verifier, and whether it is a superuser.
    pub(crate) fn find(&self, name: &str) -> Result<Option<(Verifier, bool)>> {
        let found = |row: Row<'_>| {
            let verifier = Verifier::parse(row.text("verifier")?);
            Ok::<_, Error>(verifier.zip(Some(row.boolean("is_superuser")?)))
        };
        self.database.run(|tx| tx.get(&self.table, key![name])?.map_or(Ok(None), found))
    }
}
