//! The users of a database, as `heddle user` adds, drops and lists them: roles of the SQL catalog that may connect.
//!
//! # Invariants
//! There is one list of users, the SQL catalog's: `heddle user add ada` is `CREATE ROLE ada LOGIN PASSWORD …`. A password
//! is stored as its SCRAM verifier only.

use heddle_sql::{ConnectOptions, Sql, SqlError, SqlState};
use heddledb::Database;

/// The reason for which a change of users is refused.
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
    /// An error of the SQL catalog, for example because objects depend on the role.
    #[error("{}{}", .0.message(), .0.detail().map(|detail| format!(": {}", detail.replace('\n', ", "))).unwrap_or_default())]
    Sql(#[from] SqlError),
}

/// A user, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// True if it is a superuser, who may do everything.
    pub is_superuser: bool,
}

/// The users of one database.
#[derive(Clone)]
pub struct Users {
    sql: Sql,
}

impl Users {
    /// Opens the SQL catalog of a database that no server serves.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn open(database: &Database) -> Result<Users, SqlError> {
        Ok(Users { sql: Sql::new(database)? })
    }

    /// The users of a database that is in use.
    pub fn of(sql: &Sql) -> Users {
        Users { sql: sql.clone() }
    }

    /// Adds a user. The bootstrap superuser, which is there from the start, gets its password this way.
    ///
    /// # Errors
    /// The name is in use or not valid; the password is empty.
    pub fn add(&self, name: &str, password: &str, is_superuser: bool) -> Result<(), UserError> {
        if name.is_empty() || name.len() > 63 || name.contains('\0') {
            return Err(UserError::InvalidName { name: name.to_owned() });
        }
        if password.is_empty() {
            return Err(UserError::EmptyPassword);
        }
        let is_known = self.sql.login_role(name).is_some();
        if is_known && !(is_superuser && self.sql.is_bootstrap_without_password(name)) {
            return Err(UserError::Exists { name: name.to_owned() });
        }
        let verb = if is_known { "ALTER" } else { "CREATE" };
        let password = password.replace('\'', "''");
        let superuser = if is_superuser { " SUPERUSER" } else { "" };
        self.run(&format!("{verb} ROLE {} LOGIN PASSWORD '{password}'{superuser}", quoted(name)))
    }

    /// Drops a user. Its connections stay open.
    ///
    /// # Errors
    /// There is no such user; objects belong to it.
    pub fn remove(&self, name: &str) -> Result<(), UserError> {
        match self.run(&format!("DROP ROLE {}", quoted(name))) {
            Err(UserError::Sql(error)) if error.state() == SqlState::UNDEFINED_OBJECT => {
                Err(UserError::Unknown { name: name.to_owned() })
            }
            done => done,
        }
    }

    /// All users, by name.
    pub fn list(&self) -> Vec<User> {
        let roles = self.sql.login_roles().into_iter();
        roles.map(|(name, is_superuser)| User { name, is_superuser }).collect()
    }

    fn run(&self, statement: &str) -> Result<(), UserError> {
        let mut connection = self.sql.connect(ConnectOptions::default())?;
        connection.query(statement)?;
        Ok(())
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
