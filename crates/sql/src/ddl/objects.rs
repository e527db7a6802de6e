//! Sequences, schemas, enums, domains, names.

use std::sync::Arc;

use crate::catalog::rights::{CREATE, Rights, RightsKind};
use crate::catalog::store::Object;
use crate::catalog::{EnumType, Relation, Schema, Sequence, UserType};
use crate::ddl::renamed_names::{rename_in_texts, renaming_of_type};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::quote_identifier;
use crate::parse::syntax::{
    AlterType, Name, ObjectKind, ObjectName, RoleName, SequenceOption, SequenceStatement, Statement,
};
use crate::session::{Connection, SequenceChange, Severity};
use crate::types::{Environment, Type};

/// A sequence of these options.
pub(crate) fn new_sequence(
    oid: u32,
    schema: &str,
    name: &str,
    ty: Option<Type>,
    options: &[SequenceOption],
) -> Result<Sequence> {
    let mut sequence = Sequence {
        oid,
        schema: schema.to_string(),
        name: name.to_string(),
        ty: ty.unwrap_or(Type::Int8),
        start: 0,
        increment: 1,
        minimum: 0,
        maximum: 0,
        cycle: false,
        cache: 1,
        owner: None,
        rights: Rights::default(),
        comment: None,
    };
    change_sequence(&mut sequence, options, true)?;
    Ok(sequence)
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Applies options: to a new sequence, or to an existing one. Returns the value at which it restarts, if it does.
fn change_sequence(sequence: &mut Sequence, options: &[SequenceOption], new: bool) -> Result<Option<i64>> {
    let (mut minimum, mut maximum, mut start, mut restart) = (None, None, None, None);
    let type_before = sequence.ty;
    for option in options {
        match option {
            SequenceOption::As(ty) => {
                sequence.ty = match ty.name.last() {
                    "int2" => Type::Int2,
                    "int4" => Type::Int4,
                    "int8" => Type::Int8,
                    _ => {
                        return Err(invalid(
                            "sequence type must be smallint, integer, or bigint".to_string(),
                        ));
                    }
                };
            }
            SequenceOption::Increment(0) => return Err(invalid("INCREMENT must not be zero".to_string())),
            SequenceOption::Increment(step) => sequence.increment = *step,
            SequenceOption::Minimum(value) => minimum = Some(*value),
            SequenceOption::Maximum(value) => maximum = Some(*value),
            SequenceOption::Start(value) => start = Some(*value),
            SequenceOption::Restart(value) => restart = Some(*value),
            SequenceOption::Cycle(cycle) => sequence.cycle = *cycle,
            SequenceOption::Cache(cache) if *cache < 1 => {
                return Err(invalid(format!("CACHE ({cache}) must be greater than zero")));
            }
            SequenceOption::Cache(cache) => sequence.cache = *cache,
            SequenceOption::OwnedBy(_) | SequenceOption::Name(_) => {}
        }
    }
    let (least, most) = bounds_of(sequence.ty);
    let (least_before, most_before) = bounds_of(type_before);
    let ascending = sequence.increment > 0;
    // A bound of the type before was no choice of the user's: it becomes the new type's.
    let retyped = sequence.ty != type_before;
    if new || minimum.is_some() || (retyped && sequence.minimum == least_before) {
        sequence.minimum = minimum.flatten().unwrap_or(if ascending { 1 } else { least });
    }
    if new || maximum.is_some() || (retyped && sequence.maximum == most_before) {
        sequence.maximum = maximum.flatten().unwrap_or(if ascending { most } else { -1 });
    }
    if sequence.minimum < least || sequence.maximum > most {
        return Err(invalid(format!(
            "sequence bounds are out of range for type {}",
            sequence.ty.display_name()
        )));
    }
    if sequence.minimum >= sequence.maximum {
        return Err(invalid(format!(
            "MINVALUE ({}) must be less than MAXVALUE ({})",
            sequence.minimum, sequence.maximum
        )));
    }
    if new || start.is_some() {
        sequence.start = start.unwrap_or(if ascending { sequence.minimum } else { sequence.maximum });
    }
    check_start(sequence)?;
    let restart = restart.map(|value| value.unwrap_or(sequence.start));
    if let Some(value) = restart {
        check_restart(sequence, value)?;
    }
    Ok(restart)
}

/// Refuses to restart a sequence outside of its bounds.
fn check_restart(sequence: &Sequence, value: i64) -> Result<()> {
    let (minimum, maximum) = (sequence.minimum, sequence.maximum);
    if value < minimum {
        return Err(invalid(format!("RESTART value ({value}) cannot be less than MINVALUE ({minimum})")));
    }
    if value > maximum {
        return Err(invalid(format!("RESTART value ({value}) cannot be greater than MAXVALUE ({maximum})")));
    }
    Ok(())
}

/// The least and the greatest value of an integer type.
fn bounds_of(ty: Type) -> (i64, i64) {
    match ty {
        Type::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Type::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

fn check_start(sequence: &Sequence) -> Result<()> {
    if sequence.start < sequence.minimum {
        return Err(invalid(format!(
            "START value ({}) cannot be less than MINVALUE ({})",
            sequence.start, sequence.minimum
        )));
    }
    if sequence.start > sequence.maximum {
        return Err(invalid(format!(
            "START value ({}) cannot be greater than MAXVALUE ({})",
            sequence.start, sequence.maximum
        )));
    }
    Ok(())
}

impl Connection {
    /// The name of an identity column's sequence: as its options have it, or after the table and the column.
    ///
    /// # Errors
    /// 42P07: there is a relation of this name. 42601: the name is of another schema than the table.
    pub(crate) fn identity_sequence_name(
        &mut self,
        schema: &str,
        options: &[SequenceOption],
        free: impl FnOnce() -> String,
    ) -> Result<String> {
        let named = options.iter().find_map(|option| match option {
            SequenceOption::Name(name) => Some(name),
            _ => None,
        });
        let Some(name) = named else { return Ok(free()) };
        if name.schema().is_some_and(|given| given != schema) {
            let message = "the sequence of an identity column must be in the schema of its table";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        self.is_free(schema, name.last(), false)?;
        Ok(name.last().to_string())
    }

    /// A default as the catalog keeps it: it follows its sequences when they are renamed.
    pub(crate) fn stored_default(&self, text: &str) -> String {
        crate::parse::with_sequences(text, |name| {
            let name = crate::parse::parse_name(name).ok()?;
            match self.find_relation(&name).ok()? {
                Relation::Sequence(sequence) => Some(sequence.oid),
                _ => None,
            }
        })
    }

    pub(crate) fn create_sequence(&mut self, create: &SequenceStatement) -> Result<&'static str> {
        let shared = self.shared().clone();
        let mut catalog = self.catalog_to_change();
        let schema = self.schema_for(&create.name, create.temporary)?;
        if !self.is_free(&schema, create.name.last(), create.tolerant)? {
            return Ok("CREATE SEQUENCE");
        }
        let mut sequence =
            new_sequence(catalog.new_oid(), &schema, create.name.last(), None, &create.options)?;
        sequence.rights = self.new_rights(RightsKind::Sequence, &schema);
        sequence.owner = self.sequence_owner(&sequence, &create.options)?.flatten();
        // What a transaction that was rolled back has left of the number.
        shared.sequences.forget(&shared.database, sequence.oid)?;
        let name = sequence.name.clone();
        catalog.put_relation(&schema, &name, Relation::Sequence(Arc::new(sequence.clone())));
        self.publish(&[Object::Sequence(sequence)], catalog)?;
        Ok("CREATE SEQUENCE")
    }

    /// OWNED BY, if it was said: the table and column, or none.
    fn sequence_owner(
        &self,
        sequence: &Sequence,
        options: &[SequenceOption],
    ) -> Result<Option<Option<(u32, usize)>>> {
        let owner = options.iter().find_map(|option| match option {
            SequenceOption::OwnedBy(owner) => Some(owner),
            _ => None,
        });
        let Some(owner) = owner else { return Ok(None) };
        let Some(owner) = owner else { return Ok(Some(None)) };
        let (column, table) = match owner.parts.split_last() {
            Some((column, table)) if !table.is_empty() => (column, ObjectName { parts: table.to_vec() }),
            _ => {
                let hint = "Specify OWNED BY table.column or OWNED BY NONE.";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option").with_hint(hint));
            }
        };
        let Relation::Table(table) = self.find_relation(&table)? else {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "sequence cannot be owned by this relation",
            ));
        };
        let linked = |what: &str| {
            let message = format!("sequence must {what} as table it is linked to");
            Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
        };
        if sequence.rights.owner != table.rights.owner {
            return linked("have same owner");
        }
        if sequence.schema != table.schema {
            return linked("be in same schema");
        }
        let position =
            table.visible().iter().position(|known| known.name == column.text).ok_or_else(|| {
                let message =
                    format!("column \"{}\" of relation \"{}\" does not exist", column.text, table.name);
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            })?;
        Ok(Some(Some((table.oid, position))))
    }

    pub(crate) fn alter_sequence(&mut self, alter: &SequenceStatement) -> Result<&'static str> {
        let sequence = match self.find_relation(&alter.name) {
            Ok(Relation::Sequence(sequence)) => sequence,
            Ok(_) => {
                let message = format!("\"{}\" is not a sequence", alter.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            Err(error) if alter.tolerant && error.state() == SqlState::UNDEFINED_TABLE => {
                self.skip_missing("relation", &alter.name.to_string());
                return Ok("ALTER SEQUENCE");
            }
            Err(error) => return Err(error),
        };
        self.check_owner(&sequence.rights, "sequence", &sequence.name)?;
        self.change_known_sequence(&sequence, &alter.options)?;
        Ok("ALTER SEQUENCE")
    }

    pub(super) fn change_known_sequence(
        &mut self,
        sequence: &Sequence,
        options: &[SequenceOption],
    ) -> Result<()> {
        let mut changed = sequence.clone();
        let restart = change_sequence(&mut changed, options, false)?;
        if let Some(owner) = self.sequence_owner(sequence, options)? {
            changed.owner = owner;
        }
        if let Some(value) = restart {
            self.change_sequence_at_commit(SequenceChange::Restart(sequence.oid, value));
        }
        let mut catalog = self.catalog_to_change();
        let (schema, name) = (changed.schema.clone(), changed.name.clone());
        catalog.put_relation(&schema, &name, Relation::Sequence(Arc::new(changed.clone())));
        self.publish(&[Object::Sequence(changed)], catalog)
    }

    pub(crate) fn create_schema(
        &mut self,
        name: Option<&Name>,
        owner: Option<&RoleName>,
        tolerant: bool,
        (elements, text): (&[Statement], &str),
    ) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        self.check_database(CREATE)?;
        let owner = match owner {
            Some(owner) => self.new_owner(owner)?,
            None => self.role(),
        };
        let own_name = self.environment().role_name(owner);
        let name = name.map_or(own_name.as_str(), |name| name.text.as_str());
        check_schema_name(name)?;
        if catalog.schema(name).is_some() {
            let message = format!("schema \"{name}\" already exists");
            if !tolerant {
                return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
            }
            let message = format!("{message}, skipping");
            self.environment_mut().add_notice(Severity::Notice, SqlState::DUPLICATE_SCHEMA, message);
            return Ok("CREATE SCHEMA");
        }
        let mut rights = self.new_rights(RightsKind::Schema, name);
        rights.change_owner(owner);
        let schema = Schema { oid: catalog.new_oid(), name: name.to_string(), comment: None, rights };
        catalog.add_schema(schema.clone());
        self.publish(&[Object::Schema(schema)], catalog)?;
        self.create_elements(name, elements, text)?;
        Ok("CREATE SCHEMA")
    }

    /// Makes the objects of a CREATE SCHEMA, with the new schema before all others in the path: objects that others
    /// refer to are made first.
    fn create_elements(&mut self, schema: &str, elements: &[Statement], text: &str) -> Result<()> {
        let Some(path) = self.environment().setting("search_path").filter(|_| !elements.is_empty()) else {
            return Ok(());
        };
        let own_path = format!("{}, {path}", quote_identifier(schema));
        self.environment_mut().settings.set("search_path", Some(&own_path), true, true)?;
        let rank = |element: &&Statement| match element {
            Statement::CreateSequence(_) => 0,
            Statement::CreateTable(_) => 1,
            Statement::CreateView(_) => 2,
            Statement::CreateIndex(_) => 3,
            Statement::CreateTrigger(_) => 4,
            _ => 5,
        };
        let mut ordered: Vec<&Statement> = elements.iter().collect();
        ordered.sort_by_key(rank);
        let done = ordered.into_iter().try_for_each(|element| {
            let named = element.created_name().and_then(ObjectName::schema);
            if let Some(other) = named.filter(|other| *other != schema) {
                let message = format!(
                    "CREATE specifies a schema ({other}) different from the one being created ({schema})"
                );
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_DEFINITION, message));
            }
            self.change_schema(element, text).map(|_| ())
        });
        self.environment_mut().settings.set("search_path", Some(&path), true, true)?;
        done
    }

    pub(super) fn type_is_free(&self, schema: &str, name: &str) -> Result<()> {
        let catalog = &self.environment().catalog;
        // The rows of a relation are a type of its name.
        let is_row = !matches!(catalog.relation(schema, name), None | Some(Relation::Index { .. }));
        if is_row || catalog.user_type(schema, name).is_some() {
            let message = format!("type \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        Ok(())
    }

    pub(crate) fn create_enum(&mut self, name: &ObjectName, labels: &[String]) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let schema = self.schema_for(name, false)?;
        self.type_is_free(&schema, name.last())?;
        for (position, label) in labels.iter().enumerate() {
            check_label(label)?;
            if labels[..position].contains(label) {
                let message = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
                return Err(SqlError::new(SqlState::UNIQUE_VIOLATION, message)
                    .with_table("pg_catalog", "pg_enum")
                    .with_constraint("pg_enum_typid_label_index"));
            }
        }
        let ty = EnumType::new(
            (catalog.new_oid(), &schema, name.last()),
            labels,
            self.new_rights(RightsKind::Type, &schema),
        );
        catalog.put_type(UserType::Enum(Arc::new(ty.clone())));
        self.publish(&[Object::Enum(ty)], catalog)?;
        Ok("CREATE TYPE")
    }

    pub(crate) fn alter_type(&mut self, name: &ObjectName, change: &AlterType) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let path = self.environment().path();
        self.environment().check_usage_of(name)?;
        let found = catalog.find_type(name.schema(), name.last(), &path).cloned();
        if let Some(UserType::Composite(ty)) = &found {
            return self.alter_composite(&ty.clone(), change);
        }
        let Some(UserType::Enum(ty)) = found else {
            let message = format!("type \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        };
        self.check_owner(&ty.rights, "type", &ty.name)?;
        let (mut changed, mut objects) = (ty.as_ref().clone(), Vec::new());
        let place_of = |label: &str| {
            changed.labels.iter().position(|known| known.as_ref() == label).ok_or_else(|| {
                let message = format!("\"{label}\" is not an existing enum label");
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            })
        };
        match change {
            AlterType::RenameAttribute { .. } | AlterType::Attributes(_) => {
                let message = format!("\"{}\" is not a composite type", ty.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            AlterType::AddValue { value, if_not_exists, place } => {
                check_label(value)?;
                if place_of(value).is_ok() {
                    let message = format!("enum label \"{value}\" already exists");
                    if !if_not_exists {
                        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                    }
                    let message = format!("{message}, skipping");
                    self.environment_mut().add_notice(Severity::Notice, SqlState::DUPLICATE_OBJECT, message);
                    return Ok("ALTER TYPE");
                }
                let position = match place {
                    None => changed.labels.len(),
                    Some((before, label)) => place_of(label)? + usize::from(!before),
                };
                let is_used = self.is_used(ty.oid);
                if !changed.insert_label(position, value, is_used) {
                    return Err(SqlError::unsupported(USED_LABELS).with_hint("Add the label at the end."));
                }
            }
            AlterType::RenameValue { from, to } => {
                check_label(to)?;
                let position = place_of(from)?;
                if place_of(to).is_ok() {
                    let message = format!("enum label \"{to}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                }
                changed.labels[position] = Arc::from(to.as_str());
            }
            AlterType::Rename(to) => {
                self.type_is_free(&ty.schema, &to.text)?;
                let before = catalog.clone();
                let names = ((ty.schema.as_str(), ty.name.as_str()), (ty.schema.as_str(), to.text.as_str()));
                let renaming = renaming_of_type(&before, names.0, names.1);
                objects = rename_in_texts(&mut catalog, &renaming);
                catalog.remove_type(&ty.schema, &ty.name);
                changed.name = to.text.clone();
            }
        }
        catalog.put_type(UserType::Enum(Arc::new(changed.clone())));
        objects.push(Object::Enum(changed));
        self.publish(&objects, catalog)?;
        Ok("ALTER TYPE")
    }

    /// Returns true if a column is of an enum, whose values are stored as its labels' numbers.
    fn is_used(&self, oid: u32) -> bool {
        let uses = |ty: Type| ty.element().unwrap_or(ty) == Type::Enum(oid);
        self.environment().catalog.tables().any(|table| table.columns.iter().any(|column| uses(column.ty)))
    }

    /// ALTER … RENAME TO of what is not a table.
    pub(crate) fn rename(
        &mut self,
        kind: ObjectKind,
        name: &ObjectName,
        if_exists: bool,
        to: &str,
    ) -> Result<&'static str> {
        let tag = match kind {
            ObjectKind::Index => "ALTER INDEX",
            ObjectKind::View => "ALTER VIEW",
            ObjectKind::Sequence => "ALTER SEQUENCE",
            ObjectKind::Domain => return self.rename_domain(name, to),
            ObjectKind::Schema => return self.rename_schema(name.last(), to),
            _ => "ALTER TABLE",
        };
        let Some(relation) = self.relation_to_alter(name, if_exists)? else { return Ok(tag) };
        if kind == ObjectKind::MaterializedView && relation.kind() != "materialized view" {
            let message = format!("\"{}\" is not a materialized view", name.last());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        self.rename_relation(&relation, to)?;
        Ok(tag)
    }
}

const USED_LABELS: &str = "no further enum label fits in this place while columns use the type";

/// Refuses labels of enums that no name can hold.
fn check_label(label: &str) -> Result<()> {
    if label.len() <= 63 {
        return Ok(());
    }
    let message = format!("invalid enum label \"{label}\"");
    let detail = "Labels must be 63 bytes or less.";
    Err(SqlError::new(SqlState::INVALID_NAME, message).with_detail(detail))
}

/// Refuses the names of system schemas.
pub(super) fn check_schema_name(name: &str) -> Result<()> {
    if !name.starts_with("pg_") && name != "information_schema" {
        return Ok(());
    }
    let message = format!("unacceptable schema name \"{name}\"");
    let detail = "The prefix \"pg_\" is reserved for system schemas.";
    Err(SqlError::new(SqlState::RESERVED_NAME, message).with_detail(detail))
}
