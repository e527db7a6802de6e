//! Users of databases from before there were roles: an own table of the server, whose rows become roles of the catalog.
//!
//! # Invariants
//! The roles are stored in the transaction that drops the table, so a crash leaves one or the other.

use heddledb::{Database, Range, ValueRef};

use crate::catalog::Catalog;
use crate::catalog::role::Role;
use crate::catalog::store::{Object, Store};
use crate::error::{Result, SqlError, SqlState};

/// The table's name.
const TABLE: &str = "sql.user";

/// Refuses a standby of a database whose users are no roles yet: it cannot make them, and must not let everybody in.
///
/// # Errors
/// 55000.
pub(super) fn check_adopted(database: &Database) -> Result<()> {
    if database.table(TABLE).is_err() {
        return Ok(());
    }
    let message = "the database has users from before there were roles, and was not served since";
    let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
    Err(error.with_hint("Serve the database once, and then a standby of it."))
}

/// Turns the users into roles, if the database has any.
pub(super) fn adopt(database: &Database, store: &Store, catalog: &mut Catalog) -> Result<()> {
    let Ok(table) = database.table(TABLE) else { return Ok(()) };
    let users = database.run(|tx| {
        let mut users = Vec::new();
        for row in tx.scan(&table, Range::all())? {
            let row = row?;
            if let (ValueRef::Text(name), ValueRef::Text(verifier)) = (row.get("name")?, row.get("verifier")?)
            {
                users.push((name.to_string(), verifier.to_string(), row.boolean("is_superuser")?));
            }
        }
        Ok(users)
    })?;
    let mut objects = Vec::new();
    for (name, verifier, superuser) in users {
        let known = catalog.role(&name).map(|role| role.oid);
        let oid = known.unwrap_or_else(|| catalog.new_oid());
        let verifier = Some(verifier);
        let role = Role { login: true, superuser, verifier, ..Role::new(oid, &name) };
        objects.push(Object::Role(role.clone()));
        catalog.put_role(role);
    }
    let mut session = database.session()?;
    session.begin()?;
    store.put(&mut session, &objects)?;
    session.drop_table(TABLE)?;
    Ok(session.commit()?)
}
