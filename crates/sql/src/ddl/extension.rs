//! CREATE and ALTER EXTENSION.
//!
//! Source: PostgreSQL 15, `extension.c`.

use std::sync::Arc;

use crate::catalog::rights::{CREATE, Rights, RightsKind};
use crate::catalog::store::Object;
use crate::catalog::{
    Argument, ArgumentMode, Catalog, Extension, Language, PLPGSQL, Routine, Stability, no_schema,
};
use crate::ddl::renamed_names::rename_routine;
use crate::ddl::roles::denied;
use crate::error::{Result, SqlError, SqlState};
use crate::extension::{AVAILABLE, Available, available};
use crate::functions::{Function, FunctionKind, Volatility};
use crate::parse::syntax::{CreateExtension, ExtensionStatement};
use crate::session::{Connection, Severity};
use crate::types::Type;

/// `extension "x" does not exist` (42704).
pub(super) fn no_extension(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("extension \"{name}\" does not exist"))
}

impl Connection {
    pub(crate) fn change_extension(&mut self, statement: &ExtensionStatement) -> Result<&'static str> {
        match statement {
            ExtensionStatement::Create(create) => {
                self.create_extension(create)?;
                Ok("CREATE EXTENSION")
            }
            ExtensionStatement::Update { name, to } => {
                self.update_extension(&name.text, to.as_deref())?;
                Ok("ALTER EXTENSION")
            }
            ExtensionStatement::SetSchema { name, schema } => {
                self.move_extension(&name.text, &schema.text)?;
                Ok("ALTER EXTENSION")
            }
        }
    }

    fn create_extension(&mut self, create: &CreateExtension) -> Result<()> {
        let name = create.name.text.as_str();
        let mut catalog = self.catalog_to_change();
        if catalog.extension(name).is_some() {
            let message = format!("extension \"{name}\" already exists");
            if !create.if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            let message = format!("{message}, skipping");
            self.environment_mut().add_notice(Severity::Notice, SqlState::DUPLICATE_OBJECT, message);
            return Ok(());
        }
        let Some(found) = available(name) else { return Err(not_available(name)) };
        self.may_install(found)?;
        if let Some(version) = create.version.as_deref().filter(|version| *version != found.version) {
            let message = format!(
                "extension \"{name}\" has no installation script nor update path for version \"{version}\""
            );
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let schema = match &create.schema {
            Some(schema) if catalog.schema(&schema.text).is_none() => return Err(no_schema(&schema.text)),
            Some(schema) => schema.text.clone(),
            None => self.environment().creation_schema()?,
        };
        let extension = Extension {
            oid: catalog.new_oid(),
            name: name.to_string(),
            schema: schema.clone(),
            version: found.version.to_string(),
            comment: Some(found.comment.to_string()),
            rights: Rights::of(self.role()),
        };
        let mut objects = vec![Object::Extension(extension.clone())];
        for function in found.functions() {
            let routine = Routine { oid: catalog.new_oid(), ..member(function, &extension) };
            if let Some(known) = same(&catalog, &routine) {
                let message = format!("function \"{}\" already exists with same argument types", known.name);
                return Err(SqlError::new(SqlState::DUPLICATE_FUNCTION, message));
            }
            let rights = self.new_rights(RightsKind::Function, &schema);
            let routine = Routine { rights, ..routine };
            catalog.put_routine(Arc::new(routine.clone()));
            objects.push(Object::Routine(routine));
        }
        catalog.put_extension(Arc::new(extension));
        self.publish(&objects, catalog)
    }

    /// Checks that the current role may install an extension: a trusted one, if it may create in the database.
    fn may_install(&self, extension: &Available) -> Result<()> {
        if self.is_superuser() || extension.is_trusted && self.check_database(CREATE).is_ok() {
            return Ok(());
        }
        let message = format!("permission denied to create extension \"{}\"", extension.name);
        Err(denied(message).with_hint(match extension.is_trusted {
            true => "Must have CREATE privilege on current database to create this extension.",
            false => "Must be superuser to create this extension.",
        }))
    }

    /// The installed extension of this name, if it is the current role's.
    fn own_extension(&self, name: &str) -> Result<Arc<Extension>> {
        let found = self.current_catalog().extension(name).cloned().ok_or_else(|| no_extension(name))?;
        self.check_owner(&found.rights, "extension", name)?;
        Ok(found)
    }

    fn update_extension(&mut self, name: &str, to: Option<&str>) -> Result<()> {
        let found = self.own_extension(name)?;
        let newest = available(name).map_or(found.version.as_str(), |it| it.version);
        let to = to.unwrap_or(newest);
        if to == found.version {
            let message = format!("version \"{to}\" of extension \"{name}\" is already installed");
            self.environment_mut().add_notice(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
            return Ok(());
        }
        let message = format!(
            "extension \"{name}\" has no update path from version \"{}\" to version \"{to}\"",
            found.version
        );
        Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }

    fn move_extension(&mut self, name: &str, schema: &str) -> Result<()> {
        let found = self.own_extension(name)?;
        let mut catalog = self.catalog_to_change();
        if catalog.schema(schema).is_none() {
            return Err(no_schema(schema));
        }
        self.check_schema(schema, CREATE)?;
        if found.oid == PLPGSQL {
            let message = "extension \"plpgsql\" does not support SET SCHEMA";
            return Err(SqlError::unsupported(message));
        }
        if found.schema == schema {
            return Ok(());
        }
        let members: Vec<Arc<Routine>> = catalog.members(found.oid).cloned().collect();
        let mut objects = Vec::new();
        for known in members {
            let moved = Routine { schema: schema.to_string(), ..known.as_ref().clone() };
            if same(&catalog, &moved).is_some() {
                let message = format!("function {} already exists in schema \"{schema}\"", moved.name);
                return Err(SqlError::new(SqlState::DUPLICATE_FUNCTION, message));
            }
            objects.extend(rename_routine(&mut catalog, &known, &moved)?);
            catalog.put_routine(Arc::new(moved.clone()));
            objects.push(Object::Routine(moved));
        }
        let moved = Extension { schema: schema.to_string(), ..found.as_ref().clone() };
        catalog.put_extension(Arc::new(moved.clone()));
        objects.push(Object::Extension(moved));
        self.publish(&objects, catalog)
    }
}

/// The routine of a catalog with a routine's schema, name and argument types.
fn same(catalog: &Catalog, routine: &Routine) -> Option<Arc<Routine>> {
    let overloads = catalog.routines_of(&routine.schema, &routine.name);
    overloads.iter().find(|known| known.input_types() == routine.input_types()).cloned()
}

/// An extension's function as a routine.
fn member(function: &Function, extension: &Extension) -> Routine {
    let inputs = function.arguments.iter().zip(&function.argument_names).enumerate();
    let is_last = |at: usize| at + 1 == function.arguments.len();
    let mut arguments: Vec<Argument> = inputs
        .map(|(at, (ty, name))| Argument {
            name: (*name).to_string(),
            mode: if function.is_variadic && is_last(at) { ArgumentMode::Variadic } else { ArgumentMode::In },
            ty: *ty,
            default: None,
            row_of: None,
            domain: None,
        })
        .collect();
    arguments.extend(function.columns.iter().map(|(name, ty)| Argument {
        name: (*name).to_string(),
        mode: ArgumentMode::Out,
        ty: *ty,
        default: None,
        row_of: None,
        domain: None,
    }));
    Routine {
        oid: 0,
        schema: extension.schema.clone(),
        name: function.name.to_string(),
        is_procedure: false,
        language: Language::C,
        arguments,
        result: if function.columns.is_empty() { function.result } else { Type::Record },
        is_set: matches!(function.kind, FunctionKind::Set(_)),
        row_of: None,
        result_domain: None,
        is_strict: function.is_strict,
        stability: match function.volatility {
            Volatility::Immutable => Stability::Immutable,
            Volatility::Stable => Stability::Stable,
            Volatility::Volatile => Stability::Volatile,
        },
        body: function.signature.to_string(),
        is_settled: false,
        comment: None,
        rights: Rights::default(),
        is_definer: false,
        is_leakproof: false,
        settings: Vec::new(),
        extension: Some(extension.oid),
    }
}

/// `extension "x" is not available` (0A000), with those that are.
fn not_available(name: &str) -> SqlError {
    let names: Vec<&str> = AVAILABLE.iter().map(|it| it.name).collect();
    SqlError::unsupported(format!("extension \"{name}\" is not available"))
        .with_hint(format!("These are: {}.", names.join(", ")))
}
