//! The differences between two catalogs, as far as the meaning of statements can depend on them.
//!
//! Comments, passwords and additional privileges change no meaning: a statement that was allowed is allowed. A privilege that is
//! lost concerns the statements that needed one granted to the same role (or to PUBLIC). A foreign
//! key is one of the table that it refers to as well, because deletes there follow it; a trigger is one of its table; a
//! role's memberships concern its members.
//!
//! # Invariants
//! - Objects of sessions' own (`pg_temp_…`) are left out: no other session can mean them.
//! - A thing that is added concerns statements under way only if a statement that succeeds may have meant something else
//!   by its name: if another schema has such an object.

use std::sync::Arc;

use super::history::Changed;
use super::rights::{AclItem, Rights, RightsKind};
use super::role::Role;
use super::store::TEMPORARY;
use super::uses::Thing;
use super::{
    Catalog, CompositeType, Domain, EnumType, Relation, Routine, Schema, Sequence, Table, Trigger, UserType,
    View,
};

impl Catalog {
    /// The changes that schema changes have made to turn an older catalog into this one.
    pub(crate) fn changed_since(&self, old: &Catalog) -> Changed {
        let mut found = Found { old, new: self, changed: Changed::default() };
        found.relations();
        found.types();
        found.routines();
        found.triggers();
        found.schemas();
        found.roles();
        found.changed
    }
}

struct Found<'c> {
    old: &'c Catalog,
    new: &'c Catalog,
    changed: Changed,
}

impl Found<'_> {
    fn note(&mut self, thing: Thing<'_>) {
        self.changed.things.insert(thing.number());
    }

    /// Notes an object that was changed, added or dropped.
    fn note_object(&mut self, name: Thing<'_>, oid: u32, concerns_others: bool) {
        self.note(name);
        self.note(Thing::Oid(oid));
        self.changed.concerns_others |= concerns_others;
    }

    /// Notes the roles that have lost privileges on an object.
    fn note_losers(&mut self, old: &Rights, new: &Rights, kind: RightsKind) {
        if old != new {
            self.note_losers_of(Some(&old.items(kind)), Some(&new.items(kind)));
        }
    }

    fn note_losers_of(&mut self, old: Option<&[AclItem]>, new: Option<&[AclItem]>) {
        let of = |grantee: u32| {
            let items = new.unwrap_or_default().iter().filter(|item| item.grantee == grantee);
            items.fold(0, |all, item| all | item.privileges)
        };
        for item in old.unwrap_or_default() {
            if item.privileges & !of(item.grantee) != 0 {
                self.note(Thing::Grantee(item.grantee));
                self.changed.concerns_others = true;
            }
        }
    }

    /// Notes the roles that have lost privileges on a relation that is the same otherwise.
    fn note_losers_on_relation(&mut self, old: &Relation, new: &Relation) {
        match (old, new) {
            (Relation::Table(old), Relation::Table(new)) => {
                self.note_losers(&old.rights, &new.rights, RightsKind::Table);
                for (old, new) in old.columns.iter().zip(&new.columns) {
                    self.note_losers_of(old.acl.as_deref(), new.acl.as_deref());
                }
            }
            (Relation::View(old), Relation::View(new)) => {
                self.note_losers(&old.rights, &new.rights, RightsKind::Table);
                for (column, acl) in &old.column_acls {
                    let now = new.column_acls.iter().find(|(other, _)| other == column);
                    self.note_losers_of(Some(acl), now.map(|(_, acl)| acl.as_slice()));
                }
            }
            (Relation::Sequence(old), Relation::Sequence(new)) => {
                self.note_losers(&old.rights, &new.rights, RightsKind::Sequence);
            }
            _ => {}
        }
    }

    fn relations(&mut self) {
        let (old, new) = (self.old, self.new);
        for (schema, name, relation) in relations_of(old) {
            let now = new.relation_unnoted(schema, name);
            if let Some(now) = now.filter(|now| is_same_relation(relation, now)) {
                self.note_losers_on_relation(relation, now);
                continue;
            }
            self.note_object(Thing::Relation(schema, name), relation.oid(), true);
            if let Some(now) = now {
                self.note(Thing::Oid(now.oid()));
            }
            self.note_referenced(Some(relation), now);
        }
        for (schema, name, relation) in relations_of(new) {
            if old.relation_unnoted(schema, name).is_some() {
                continue;
            }
            let mut others = old.relations.iter().filter(|(other, _)| !other.starts_with(TEMPORARY));
            let is_other_elsewhere = others.any(|(_, names)| names.contains_key(name));
            self.note_object(Thing::Relation(schema, name), relation.oid(), is_other_elsewhere);
            self.note_referenced(None, Some(relation));
        }
    }

    /// Notes the tables that foreign keys refer to that are only in one of two definitions.
    fn note_referenced(&mut self, old: Option<&Relation>, new: Option<&Relation>) {
        let keys = |relation: Option<&Relation>| match relation {
            Some(Relation::Table(table)) => table.foreign_keys.clone(),
            _ => Vec::new(),
        };
        let (old, new) = (keys(old), keys(new));
        let only_old = old.iter().filter(|key| !new.contains(key));
        let only_new = new.iter().filter(|key| !old.contains(key));
        for key in only_old.chain(only_new) {
            self.note(Thing::Oid(key.table));
            self.changed.concerns_others = true;
        }
    }

    fn types(&mut self) {
        let (old, new) = (self.old, self.new);
        for (schema, name, ty) in types_of(old) {
            let now = new.types.get(schema).and_then(|names| names.get(name));
            match now {
                Some(now) if is_same_type(ty, now) => {
                    self.note_losers(ty.rights(), now.rights(), RightsKind::Type);
                }
                now => {
                    self.note_object(Thing::Type(schema, name), ty.oid(), true);
                    now.into_iter().for_each(|now| self.note(Thing::Oid(now.oid())));
                }
            }
        }
        for (schema, name, ty) in types_of(new) {
            if old.types.get(schema).is_none_or(|names| !names.contains_key(name)) {
                let is_other_elsewhere = old.types.values().any(|names| names.contains_key(name));
                self.note_object(Thing::Type(schema, name), ty.oid(), is_other_elsewhere);
            }
        }
    }

    fn routines(&mut self) {
        let (old, new) = (self.old, self.new);
        for (oid, routine) in &old.routines_by_oid {
            let now = new.routines_by_oid.get(oid);
            match now {
                Some(now) if is_same_routine(routine, now) => {
                    self.note_losers(&routine.rights, &now.rights, RightsKind::Function);
                }
                now => {
                    self.note_object(Thing::Routine(&routine.schema, &routine.name), *oid, true);
                    now.into_iter().for_each(|now| self.note(Thing::Routine(&now.schema, &now.name)));
                }
            }
        }
        for (oid, routine) in &new.routines_by_oid {
            if !old.routines_by_oid.contains_key(oid) && !routine.schema.starts_with(TEMPORARY) {
                let is_overload = old.routines.values().any(|names| names.contains_key(&routine.name));
                self.note_object(Thing::Routine(&routine.schema, &routine.name), *oid, is_overload);
            }
        }
    }

    fn triggers(&mut self) {
        let (old, new) = (self.old, self.new);
        for table in old.triggers.keys().chain(new.triggers.keys()) {
            let of = |catalog: &Catalog| catalog.triggers.get(table).cloned().unwrap_or_default();
            let (before, now) = (of(old), of(new));
            let is_same = before.len() == now.len()
                && before.iter().zip(&now).all(|(before, now)| is_same_trigger(before, now));
            if !is_same {
                self.note(Thing::Oid(*table));
                self.changed.concerns_others = true;
            }
        }
    }

    fn schemas(&mut self) {
        let (old, new) = (self.old, self.new);
        for (name, schema) in &old.schemas {
            let is_same = |now: &&Schema| now.oid == schema.oid && now.rights.owner == schema.rights.owner;
            match new.schemas.get(name).filter(is_same) {
                Some(now) => self.note_losers(&schema.rights, &now.rights, RightsKind::Schema),
                None => self.note_object(Thing::Schema(name), schema.oid, true),
            }
        }
        for (name, schema) in new.schemas.iter().filter(|(name, _)| !old.schemas.contains_key(*name)) {
            self.note_object(Thing::Schema(name), schema.oid, false);
        }
        if old.database.rights.owner != new.database.rights.owner {
            self.note(Thing::Database);
            self.changed.concerns_others = true;
        }
        self.note_losers(&old.database.rights, &new.database.rights, RightsKind::Database);
    }

    fn roles(&mut self) {
        let (old, new) = (self.old, self.new);
        for (name, role) in &old.roles {
            let now = new.roles.get(name);
            if now.is_some_and(|now| Arc::ptr_eq(role, now) || may_all(role, now)) {
                continue;
            }
            self.note_object(Thing::Role(name), role.oid, true);
            for member in old.roles.values().filter(|member| old.is_member_of_strictly(member.oid, role.oid))
            {
                self.note_object(Thing::Role(&member.name), member.oid, true);
            }
        }
        for (name, role) in new.roles.iter().filter(|(name, _)| !old.roles.contains_key(*name)) {
            self.note_object(Thing::Role(name), role.oid, false);
        }
    }
}

fn relations_of(catalog: &Catalog) -> impl Iterator<Item = (&str, &str, &Relation)> {
    let schemas = catalog.relations.iter().filter(|(schema, _)| !schema.starts_with(TEMPORARY));
    schemas.flat_map(|(schema, names)| {
        names.iter().map(|(name, relation)| (schema.as_str(), name.as_str(), relation))
    })
}

fn types_of(catalog: &Catalog) -> impl Iterator<Item = (&str, &str, &UserType)> {
    let schemas = catalog.types.iter();
    schemas.flat_map(|(schema, names)| names.iter().map(|(name, ty)| (schema.as_str(), name.as_str(), ty)))
}

fn is_same_relation(old: &Relation, new: &Relation) -> bool {
    match (old, new) {
        (Relation::Table(old), Relation::Table(new)) => Arc::ptr_eq(old, new) || is_same_table(old, new),
        (Relation::View(old), Relation::View(new)) => Arc::ptr_eq(old, new) || is_same_view(old, new),
        (Relation::Sequence(old), Relation::Sequence(new)) => {
            let plain = |sequence: &Sequence| Sequence {
                rights: Rights::default(),
                comment: None,
                ..sequence.clone()
            };
            Arc::ptr_eq(old, new) || plain(old) == plain(new) && old.rights.owner == new.rights.owner
        }
        // An index is a part of its table.
        (Relation::Index { table, oid }, Relation::Index { table: now, oid: oid_now }) => {
            table == now && oid == oid_now
        }
        _ => false,
    }
}

fn is_same_table(old: &Table, new: &Table) -> bool {
    let columns = |table: &Table| -> Vec<super::Column> {
        let plain = |column: &super::Column| super::Column { comment: None, acl: None, ..column.clone() };
        table.columns.iter().map(plain).collect()
    };
    let names = |table: &Table| (table.key_name.clone(), table.persistence, table.stored_query.clone());
    old.oid == new.oid
        && old.engine.definition() == new.engine.definition()
        && names(old) == names(new)
        && old.key == new.key
        && old.indexes == new.indexes
        && old.checks == new.checks
        && old.foreign_keys == new.foreign_keys
        && columns(old) == columns(new)
        && old.rights.owner == new.rights.owner
}

fn is_same_view(old: &View, new: &View) -> bool {
    let plain = |view: &View| View {
        comment: None,
        column_comments: Vec::new(),
        rights: Rights::default(),
        column_acls: Vec::new(),
        ..view.clone()
    };
    plain(old) == plain(new) && old.rights.owner == new.rights.owner
}

fn is_same_type(old: &UserType, new: &UserType) -> bool {
    match (old, new) {
        (UserType::Enum(old), UserType::Enum(new)) => {
            let plain = |ty: &EnumType| EnumType { comment: None, rights: Rights::default(), ..ty.clone() };
            Arc::ptr_eq(old, new) || plain(old) == plain(new) && old.rights.owner == new.rights.owner
        }
        (UserType::Domain(old), UserType::Domain(new)) => {
            let plain =
                |domain: &Domain| Domain { comment: None, rights: Rights::default(), ..domain.clone() };
            Arc::ptr_eq(old, new) || plain(old) == plain(new) && old.rights.owner == new.rights.owner
        }
        (UserType::Composite(old), UserType::Composite(new)) => {
            let plain =
                |ty: &CompositeType| CompositeType { comment: None, rights: Rights::default(), ..ty.clone() };
            Arc::ptr_eq(old, new) || plain(old) == plain(new) && old.rights.owner == new.rights.owner
        }
        _ => false,
    }
}

fn is_same_routine(old: &Arc<Routine>, new: &Arc<Routine>) -> bool {
    let plain = |routine: &Routine| Routine { comment: None, rights: Rights::default(), ..routine.clone() };
    Arc::ptr_eq(old, new) || plain(old) == plain(new) && old.rights.owner == new.rights.owner
}

fn is_same_trigger(old: &Arc<Trigger>, new: &Arc<Trigger>) -> bool {
    let plain = |trigger: &Trigger| Trigger { comment: None, ..trigger.clone() };
    Arc::ptr_eq(old, new) || plain(old) == plain(new)
}

/// Returns true if a role may still do all that it could.
fn may_all(old: &Role, new: &Role) -> bool {
    let still = |had: bool, has: bool| has || !had;
    old.oid == new.oid
        && still(old.superuser, new.superuser)
        && still(old.inherit, new.inherit)
        && still(old.create_role, new.create_role)
        && still(old.create_db, new.create_db)
        && still(old.bypass_rls, new.bypass_rls)
        && old.memberships.iter().all(|had| new.memberships.iter().any(|has| has.role == had.role))
}
