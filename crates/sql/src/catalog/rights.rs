//! Rights on an object: its owner, and what was granted to other roles.
//!
//! # Invariants
//! - Without an access list, an object has the default rights of its kind: all of them for its owner, and for some
//!   kinds a few for PUBLIC.
//! - An entry is for one pair of grantee and grantor. Its grant options are a subset of its privileges.
//! - A grant by a role other than the owner rests on a grant option of that role; revoking the option revokes what
//!   rests on it (CASCADE), or fails.
//!
//! Source: PostgreSQL 15, `acl.c` (`aclmask`, `aclupdate`, `recursive_revoke`, `select_best_grantor`), `acl.h`.

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::catalog::role::{BOOTSTRAP, READ_ALL_DATA, WRITE_ALL_DATA};
use crate::catalog::uses::{Thing, note};
use crate::error::{Result, SqlError, SqlState};

/// The grantee that means every role.
pub(crate) const PUBLIC_ROLE: u32 = 0;

/// Privileges, as bits.
pub(crate) type Privileges = u32;

pub(crate) const INSERT: Privileges = 1 << 0;
pub(crate) const SELECT: Privileges = 1 << 1;
pub(crate) const UPDATE: Privileges = 1 << 2;
pub(crate) const DELETE: Privileges = 1 << 3;
pub(crate) const TRUNCATE: Privileges = 1 << 4;
pub(crate) const REFERENCES: Privileges = 1 << 5;
pub(crate) const TRIGGER: Privileges = 1 << 6;
pub(crate) const EXECUTE: Privileges = 1 << 7;
pub(crate) const USAGE: Privileges = 1 << 8;
pub(crate) const CREATE: Privileges = 1 << 9;
pub(crate) const TEMPORARY: Privileges = 1 << 10;
pub(crate) const CONNECT: Privileges = 1 << 11;

/// The names of privileges, their bits, and their letters in access lists, in PostgreSQL's order.
pub(crate) const NAMES: [(&str, Privileges, char); 12] = [
    ("INSERT", INSERT, 'a'),
    ("SELECT", SELECT, 'r'),
    ("UPDATE", UPDATE, 'w'),
    ("DELETE", DELETE, 'd'),
    ("TRUNCATE", TRUNCATE, 'D'),
    ("REFERENCES", REFERENCES, 'x'),
    ("TRIGGER", TRIGGER, 't'),
    ("EXECUTE", EXECUTE, 'X'),
    ("USAGE", USAGE, 'U'),
    ("CREATE", CREATE, 'C'),
    ("TEMPORARY", TEMPORARY, 'T'),
    ("CONNECT", CONNECT, 'c'),
];

/// The kinds of objects that rights are granted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RightsKind {
    /// Tables and views.
    Table,
    Column,
    Sequence,
    Schema,
    Database,
    Type,
    Function,
}

impl RightsKind {
    /// All privileges that there are on such an object.
    pub fn all(self) -> Privileges {
        match self {
            RightsKind::Table => INSERT | SELECT | UPDATE | DELETE | TRUNCATE | REFERENCES | TRIGGER,
            RightsKind::Column => INSERT | SELECT | UPDATE | REFERENCES,
            RightsKind::Sequence => USAGE | SELECT | UPDATE,
            RightsKind::Schema => USAGE | CREATE,
            RightsKind::Database => CREATE | TEMPORARY | CONNECT,
            RightsKind::Type => USAGE,
            RightsKind::Function => EXECUTE,
        }
    }

    /// The privileges that every role has on such an object unless they are revoked.
    pub fn of_public(self) -> Privileges {
        match self {
            RightsKind::Database => TEMPORARY | CONNECT,
            RightsKind::Type => USAGE,
            RightsKind::Function => EXECUTE,
            _ => 0,
        }
    }

    /// The privileges that the owner has unless they are revoked.
    pub fn of_owner(self) -> Privileges {
        if self == RightsKind::Column { 0 } else { self.all() }
    }

    /// The letter of `acldefault`, and of `pg_default_acl` in upper case.
    pub fn letter(self) -> char {
        match self {
            RightsKind::Table => 'r',
            RightsKind::Column => 'c',
            RightsKind::Sequence => 's',
            RightsKind::Schema => 'n',
            RightsKind::Database => 'd',
            RightsKind::Type => 'T',
            RightsKind::Function => 'f',
        }
    }

    /// The kind's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            RightsKind::Table => "relation",
            RightsKind::Column => "column",
            RightsKind::Sequence => "sequence",
            RightsKind::Schema => "schema",
            RightsKind::Database => "database",
            RightsKind::Type => "type",
            RightsKind::Function => "function",
        }
    }
}

/// The privileges that one role has granted to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AclItem {
    /// The role that may, or [`PUBLIC_ROLE`].
    pub grantee: u32,
    /// The role that granted it.
    pub grantor: u32,
    /// The privileges granted.
    pub privileges: Privileges,
    /// The privileges that may be granted to others: WITH GRANT OPTION.
    pub grantable: Privileges,
}

/// The owner of an object, and what was granted on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rights {
    /// The role that owns it.
    pub owner: u32,
    /// The access list; `None` for the default of the object's kind.
    pub acl: Option<Vec<AclItem>>,
}

impl Default for Rights {
    fn default() -> Rights {
        Rights::of(BOOTSTRAP)
    }
}

/// The access list of an object on which nothing was granted yet.
pub(crate) fn default_acl(kind: RightsKind, owner: u32) -> Vec<AclItem> {
    let item = |grantee, privileges| AclItem { grantee, grantor: owner, privileges, grantable: 0 };
    let items = [item(PUBLIC_ROLE, kind.of_public()), item(owner, kind.of_owner())];
    items.into_iter().filter(|item| item.privileges != 0).collect()
}

impl Rights {
    /// The rights of an object that this role has just made.
    pub fn of(owner: u32) -> Rights {
        Rights { owner, acl: None }
    }

    /// The access list, the default one if there is none.
    pub fn items(&self, kind: RightsKind) -> Vec<AclItem> {
        self.acl.clone().unwrap_or_else(|| default_acl(kind, self.owner))
    }

    /// Gives the object to another role: the new owner has all privileges and grants of the old one.
    pub fn change_owner(&mut self, owner: u32) {
        let old = std::mem::replace(&mut self.owner, owner);
        if let Some(acl) = &mut self.acl {
            change_owner(acl, old, owner);
        }
    }

    /// Returns true if a role is mentioned, as the owner or in the list.
    pub fn mentions(&self, role: u32) -> bool {
        self.acl.iter().flatten().any(|item| item.grantee == role || item.grantor == role)
    }
}

/// Replaces one role by another in an access list, and merges entries that have become alike.
pub(crate) fn change_owner(acl: &mut Vec<AclItem>, old: u32, owner: u32) {
    let mut merged: Vec<AclItem> = Vec::with_capacity(acl.len());
    for mut item in acl.drain(..) {
        for role in [&mut item.grantee, &mut item.grantor] {
            if *role == old {
                *role = owner;
            }
        }
        match merged.iter_mut().find(|it| it.grantee == item.grantee && it.grantor == item.grantor) {
            Some(known) => {
                known.privileges |= item.privileges;
                known.grantable |= item.grantable;
            }
            None => merged.push(item),
        }
    }
    *acl = merged;
}

impl Catalog {
    /// Returns those of the wanted privileges that a role has on an object.
    pub fn granted(&self, role: u32, rights: &Rights, kind: RightsKind, wanted: Privileges) -> Privileges {
        if self.is_superuser(role) {
            return wanted;
        }
        let mut found = 0;
        if matches!(kind, RightsKind::Table | RightsKind::Sequence | RightsKind::Schema) {
            found |= self.of_predefined_roles(role, kind) & wanted;
        }
        for item in &rights.items(kind) {
            if wanted & !found == 0 {
                break;
            }
            if item.privileges & wanted & !found != 0
                && (item.grantee == PUBLIC_ROLE || self.has_privileges_of(role, item.grantee))
            {
                found |= item.privileges & wanted;
                note(self.position, Thing::Grantee(item.grantee));
            }
        }
        found
    }

    /// The privileges that membership of `pg_read_all_data` and `pg_write_all_data` gives.
    fn of_predefined_roles(&self, role: u32, kind: RightsKind) -> Privileges {
        let mut found = 0;
        if self.has_privileges_of(role, READ_ALL_DATA) {
            found |= if kind == RightsKind::Schema { USAGE } else { SELECT };
        }
        if self.has_privileges_of(role, WRITE_ALL_DATA) {
            found |= match kind {
                RightsKind::Schema => USAGE,
                RightsKind::Sequence => UPDATE,
                _ => INSERT | UPDATE | DELETE,
            };
        }
        found
    }

    /// Returns true if a role has all of these privileges on an object.
    pub fn may(&self, role: u32, rights: &Rights, kind: RightsKind, wanted: Privileges) -> bool {
        self.granted(role, rights, kind, wanted) == wanted
    }

    /// Returns true if a role counts as the owner of an object.
    pub fn is_owner(&self, role: u32, rights: &Rights) -> bool {
        self.has_privileges_of(role, rights.owner)
    }

    /// Returns those of the wanted privileges that a role may grant on an object. The owner may grant all.
    pub fn grantable(&self, role: u32, rights: &Rights, kind: RightsKind, wanted: Privileges) -> Privileges {
        if self.has_privileges_of(role, rights.owner) {
            return wanted;
        }
        let items = rights.items(kind);
        let own = items
            .iter()
            .filter(|item| item.grantee != PUBLIC_ROLE && self.has_privileges_of(role, item.grantee));
        own.fold(0, |found, item| found | item.grantable & wanted)
    }

    /// The role in whose name a role grants: the owner if it has its privileges, else the role with the most of the
    /// grant options; and the privileges that this role may grant.
    pub fn grantor(
        &self,
        role: u32,
        rights: &Rights,
        kind: RightsKind,
        wanted: Privileges,
    ) -> (u32, Privileges) {
        if self.has_privileges_of(role, rights.owner) {
            return (rights.owner, wanted);
        }
        let items = rights.items(kind);
        let options = |of: u32| {
            let own = items.iter().filter(|item| item.grantee == of);
            own.fold(0, |found, item| found | item.grantable & wanted)
        };
        let others = self.roles().into_iter().map(|role| role.oid);
        let candidates = std::iter::once(role).chain(others.filter(|it| self.has_privileges_of(role, *it)));
        let mut best = (role, options(role));
        for candidate in candidates {
            let found = options(candidate);
            if found.count_ones() > best.1.count_ones() {
                best = (candidate, found);
            }
        }
        best
    }
}

/// A change of an access list by one role for one grantee.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AclChange {
    pub grantee: u32,
    pub grantor: u32,
    pub privileges: Privileges,
    /// GRANT … WITH GRANT OPTION; of REVOKE: also, or only, the option is revoked.
    pub grantable: Privileges,
    pub grants: bool,
    pub cascade: bool,
}

/// Grants or revokes.
///
/// # Errors
/// 2BP01: other grants rest on a revoked option, and CASCADE was not said. 0LP01: a grantor of the option would have it
/// of its own grantee.
pub(crate) fn change(acl: &mut Vec<AclItem>, owner: u32, change: AclChange) -> Result<()> {
    if change.grants && change.grantable != 0 && change.grantee != owner {
        check_circularity(acl, owner, change)?;
    }
    let matches = |item: &AclItem| item.grantee == change.grantee && item.grantor == change.grantor;
    let position = match acl.iter().position(matches) {
        Some(position) => position,
        None => {
            let AclChange { grantee, grantor, .. } = change;
            acl.push(AclItem { grantee, grantor, privileges: 0, grantable: 0 });
            acl.len() - 1
        }
    };
    let item = &mut acl[position];
    let options_before = item.grantable;
    if change.grants {
        item.privileges |= change.privileges;
        item.grantable |= change.grantable;
    } else {
        item.privileges &= !change.privileges;
        item.grantable &= !change.grantable;
    }
    let lost = options_before & !item.grantable;
    if item.privileges == 0 {
        acl.remove(position);
    }
    if lost != 0 && change.grantee != PUBLIC_ROLE {
        revoke_dependents(acl, owner, change.grantee, lost, change.cascade)?;
    }
    Ok(())
}

/// Revokes what a role has granted by options that it no longer has from any grantor.
fn revoke_dependents(
    acl: &mut Vec<AclItem>,
    owner: u32,
    grantee: u32,
    lost: Privileges,
    cascade: bool,
) -> Result<()> {
    if grantee == owner {
        return Ok(());
    }
    let left = acl.iter().filter(|item| item.grantee == grantee);
    let gone = lost & !left.fold(0, |found, item| found | item.grantable);
    while gone != 0
        && let Some(item) =
            acl.iter().find(|item| item.grantor == grantee && item.privileges & gone != 0).copied()
    {
        if !cascade {
            let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, "dependent privileges exist");
            return Err(error.with_hint("Use CASCADE to revoke them too."));
        }
        let (grantee, grantor) = (item.grantee, item.grantor);
        change(
            acl,
            owner,
            AclChange { grantee, grantor, privileges: gone, grantable: gone, grants: false, cascade },
        )?;
    }
    Ok(())
}

/// Refuses to give a grant option to a role on whose own option it would then rest.
fn check_circularity(acl: &[AclItem], owner: u32, wanted: AclChange) -> Result<()> {
    if wanted.grantor == owner {
        return Ok(());
    }
    let mut rest = acl.to_vec();
    while let Some(item) =
        rest.iter().find(|item| item.grantee == wanted.grantee && item.grantable != 0).copied()
    {
        let (grantee, grantor, grantable) = (item.grantee, item.grantor, item.grantable);
        let revoked =
            AclChange { grantee, grantor, privileges: grantable, grantable, grants: false, cascade: true };
        change(&mut rest, owner, revoked)?;
    }
    let own = rest.iter().filter(|item| item.grantee == wanted.grantor);
    let left = own.fold(0, |found, item| found | item.grantable);
    if wanted.grantable & !left != 0 {
        let message = "grant options cannot be granted back to your own grantor";
        return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
    }
    Ok(())
}

/// An entry as `aclitem` prints it, with the names that `name` gives.
pub(crate) fn item_text(item: &AclItem, name: impl Fn(u32) -> String) -> String {
    let grantee = if item.grantee == PUBLIC_ROLE { String::new() } else { name(item.grantee) };
    let mut text = format!("{grantee}=");
    for (_, bit, letter) in NAMES {
        if item.privileges & bit != 0 {
            text.push(letter);
            if item.grantable & bit != 0 {
                text.push('*');
            }
        }
    }
    format!("{text}/{}", name(item.grantor))
}
