//! Functions and procedures: CREATE, ALTER, DROP and COMMENT.
//!
//! Source: PostgreSQL 15, `functioncmds.c`, `pg_proc.c`.

use std::sync::Arc;

use crate::catalog::rights::{CREATE, Rights, RightsKind};
use crate::catalog::store::Object;
use crate::catalog::{Argument, ArgumentMode, Catalog, Language, Relation, Routine, Stability, no_schema};
use crate::ddl::renamed_names::rename_routine;
use crate::ddl::roles::denied;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::parse_expression;
use crate::parse::syntax::{
    AlterRoutine, ArgumentSyntax, CreateRoutine, DropRoutines, ObjectKind, ObjectName, RoutineChange,
    RoutineName, RoutineOptions, RoutineSetting, RoutineType,
};
use crate::session::{Connection, Severity, is_of_transaction, own_name, unrecognized_setting};
use crate::types::cast::CastContext;
use crate::types::{Modifier, Type};

pub(super) fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message)
}

impl Connection {
    pub(crate) fn create_routine(&mut self, create: &CreateRoutine, text: &str) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let schema = self.schema_for(&create.name, false)?;
        let routine = self.new_routine(create, &schema, text)?;
        let same = |known: &&Arc<Routine>| known.input_types() == routine.input_types();
        let known = catalog.routines_of(&schema, &routine.name).iter().find(same).cloned();
        let oid = match &known {
            Some(known) => {
                self.check_replacement(known, &routine, create.or_replace)?;
                self.check_owner(&known.rights, known.kind(), &known.name)?;
                known.oid
            }
            None => catalog.new_oid(),
        };
        let rights = match &known {
            Some(known) => known.rights.clone(),
            None => self.new_rights(RightsKind::Function, &schema),
        };
        let comment = known.and_then(|known| known.comment.clone());
        let routine = Arc::new(Routine { oid, comment, rights, ..routine });
        catalog.put_routine(routine.clone());
        self.publish(&[Object::Routine(routine.as_ref().clone())], catalog)?;
        if self.environment().settings.is_on("check_function_bodies") {
            crate::routine::call::check(self.environment_mut(), &routine)?;
        }
        Ok(if create.is_procedure { "CREATE PROCEDURE" } else { "CREATE FUNCTION" })
    }

    fn new_routine(&mut self, create: &CreateRoutine, schema: &str, text: &str) -> Result<Routine> {
        let options = &create.options;
        let (body, language) = self.body_of(options)?;
        let arguments = self.arguments(&create.arguments, text)?;
        check_arguments(&arguments)?;
        let mut routine = Routine {
            oid: 0,
            schema: schema.to_string(),
            name: create.name.last().to_string(),
            is_procedure: create.is_procedure,
            language,
            arguments,
            result: Type::Void,
            is_set: false,
            row_of: None,
            result_domain: None,
            is_strict: options.is_strict.unwrap_or(false),
            stability: options.stability.unwrap_or(Stability::Volatile),
            body,
            is_settled: options.statements.is_some(),
            comment: None,
            rights: Rights::default(),
            is_definer: options.is_definer.unwrap_or(false),
            is_leakproof: self.leakproof(options)?.unwrap_or(false),
            settings: self.routine_settings(Vec::new(), &options.settings)?,
            extension: None,
        };
        self.set_result(&mut routine, create.returns.as_ref())?;
        if language == Language::Sql && (routine.result == Type::Trigger) {
            return Err(invalid("SQL functions cannot return type trigger"));
        }
        Ok(routine)
    }

    /// LEAKPROOF, if it was said: a promise about what a function tells, which a superuser makes.
    fn leakproof(&self, options: &RoutineOptions) -> Result<Option<bool>> {
        if options.is_leakproof == Some(true) && !self.is_superuser() {
            return Err(denied("only superuser can define a leakproof function"));
        }
        Ok(options.is_leakproof)
    }

    /// The settings that a routine runs with, after these changes.
    fn routine_settings(
        &self,
        mut settings: Vec<(String, String)>,
        changes: &[RoutineSetting],
    ) -> Result<Vec<(String, String)>> {
        for change in changes {
            let (name, value) = match change {
                RoutineSetting::Reset(None) => {
                    settings.clear();
                    continue;
                }
                RoutineSetting::Reset(Some(name)) => (name, None),
                RoutineSetting::To(name, value) => (name, value.text(name)),
                RoutineSetting::FromCurrent(name) => {
                    let current = self.environment().settings.get(name).map(str::to_string);
                    (name, Some(current.ok_or_else(|| unrecognized_setting(name))?))
                }
            };
            if is_of_transaction(name) {
                let message = format!("SET {name} in a function's definition is not supported");
                return Err(SqlError::unsupported(message));
            }
            let name = own_name(name);
            let known = settings.iter().position(|(known, _)| known == name);
            match (value, known) {
                (Some(value), known) => {
                    self.check_kept_setting(name, &value)?;
                    match known {
                        Some(known) => settings[known].1 = value,
                        None => settings.push((name.to_string(), value)),
                    }
                }
                (None, known) => {
                    self.check_kept_name(name)?;
                    known.map(|known| settings.remove(known));
                }
            }
        }
        Ok(settings)
    }

    fn arguments(&mut self, written: &[ArgumentSyntax], text: &str) -> Result<Vec<Argument>> {
        let mut arguments = Vec::with_capacity(written.len());
        for argument in written {
            let ResolvedType { mut ty, row_of: mut row, domain, .. } = self.routine_type(&argument.ty)?;
            self.check_routine_type(&argument.ty, ty)?;
            if argument.mode == ArgumentMode::InOut && row.is_some() {
                let message = "INOUT arguments of row types are not supported";
                return Err(SqlError::unsupported(message).with_hint("Use an IN and an OUT argument."));
            }
            if let Some(relation) = row.filter(|_| argument.mode.is_input()) {
                (ty, row) = (Type::row_of(relation), None);
            }
            let is_refused = matches!(ty, Type::Any | Type::Cstring) || ty == Type::Record && row.is_none();
            if is_refused {
                let message = format!("arguments of type {} are not supported", ty.display_name());
                return Err(SqlError::unsupported(message));
            }
            let mut stored = None;
            if let Some(default) = &argument.default {
                self.with_binder(text, |binder| {
                    let bound = binder.expr(&default.expr)?;
                    match ty.is_polymorphic() {
                        true => Ok(bound),
                        false => {
                            binder.coerce(bound, ty, Modifier::NONE, CastContext::Assignment, default.expr.at)
                        }
                    }
                })?;
                let expr = parse_expression(&default.text)?;
                stored = Some(self.definition_text(&default.text, |binder| {
                    binder.detached(|binder| {
                        let (bound, context) = (binder.expr(&expr)?, CastContext::Assignment);
                        match ty.is_polymorphic() {
                            true => Ok(()),
                            false => binder.coerce(bound, ty, Modifier::NONE, context, 0).map(|_| ()),
                        }
                    })
                })?);
            }
            arguments.push(Argument {
                name: argument.name.as_ref().map_or_else(String::new, |name| name.text.clone()),
                mode: argument.mode,
                ty,
                default: stored,
                row_of: row,
                domain,
            });
        }
        Ok(arguments)
    }

    /// The type that a routine's definition names, and the table whose row it is.
    pub(crate) fn routine_type(&mut self, ty: &RoutineType) -> Result<ResolvedType> {
        resolve_type(self.environment_mut(), ty)
    }

    /// Checks that the current role may define routines with values of a type.
    fn check_routine_type(&self, named: &RoutineType, ty: Type) -> Result<()> {
        let environment = self.environment();
        let name = &named.name.name;
        let found = environment.catalog.find_type(name.schema(), name.last(), &environment.path());
        match (found.filter(|_| !named.is_copied), ty.element().unwrap_or(ty)) {
            (_, Type::Enum(oid)) => self.check_user_type(oid),
            (Some(found), _) if Type::from_name(name.last()).is_none() => self.check_user_type(found.oid()),
            _ => Ok(()),
        }
    }

    fn set_result(&mut self, routine: &mut Routine, returns: Option<&RoutineType>) -> Result<()> {
        let outputs: Vec<Type> = routine.outputs().map(|argument| argument.ty).collect();
        let by_arguments = match outputs[..] {
            [] => None,
            [one] => Some(one),
            _ => Some(Type::Record),
        };
        if outputs.len() == 1 {
            let row_of = routine.outputs().find_map(|argument| argument.row_of);
            routine.row_of = row_of;
        }
        let is_table = routine.arguments.iter().any(|argument| argument.mode == ArgumentMode::Table);
        routine.is_set = is_table || returns.is_some_and(|returns| returns.name.set_of);
        let declared = match returns {
            Some(returns) => {
                let resolved = self.routine_type(returns)?;
                self.check_routine_type(returns, resolved.ty)?;
                routine.row_of = resolved.row_of.or(routine.row_of);
                routine.result_domain = resolved.domain;
                Some(resolved.ty)
            }
            None => None,
        };
        routine.result = match (declared, by_arguments) {
            _ if routine.is_procedure => by_arguments.unwrap_or(Type::Void),
            (Some(declared), Some(expected)) if declared != expected => {
                let name = self.environment().catalog.type_display(expected);
                let message = format!("function result type must be {name} because of OUT parameters");
                return Err(invalid(message));
            }
            (Some(declared), _) => declared,
            (None, Some(expected)) => expected,
            (None, None) => return Err(invalid("function result type must be specified")),
        };
        check_decided(routine)
    }

    fn check_replacement(&self, known: &Routine, routine: &Routine, or_replace: bool) -> Result<()> {
        if !or_replace {
            let message = format!("function \"{}\" already exists with same argument types", known.name);
            return Err(SqlError::new(SqlState::DUPLICATE_FUNCTION, message));
        }
        if known.is_procedure != routine.is_procedure {
            let detail = format!("\"{}\" is a {}.", known.name, known.kind());
            let message = "cannot change routine kind";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_detail(detail));
        }
        let display = |ty| self.environment().catalog.type_display(ty);
        let hint = format!("Use DROP {} {} first.", known.kind().to_uppercase(), known.signature(display));
        let shape = |of: &Routine| {
            let outputs: Vec<(String, Type)> =
                of.outputs().map(|argument| (argument.name.clone(), argument.ty)).collect();
            (of.result, of.result_domain, of.is_set, of.row_of, outputs)
        };
        if shape(known) != shape(routine) {
            let message = "cannot change return type of existing function";
            return Err(invalid(message).with_hint(hint));
        }
        for (old, new) in known.inputs().zip(routine.inputs()) {
            if !old.name.is_empty() && old.name != new.name {
                let message = format!("cannot change name of input parameter \"{}\"", old.name);
                return Err(invalid(message).with_hint(hint));
            }
            if old.default.is_some() && new.default.is_none() {
                let message = "cannot remove parameter defaults from existing function";
                return Err(invalid(message).with_hint(hint));
            }
        }
        Ok(())
    }

    /// Checks that the current role owns a routine.
    fn check_routine_owner(&self, routine: &Routine) -> Result<()> {
        self.check_owner(&routine.rights, routine.kind(), &routine.name)
    }

    /// The routine that DROP, ALTER, COMMENT and GRANT name.
    ///
    /// # Errors
    /// 42883: there is none.
    pub(crate) fn routine_named(&mut self, kind: ObjectKind, name: &RoutineName) -> Result<Arc<Routine>> {
        match self.find_routine(kind, name)? {
            Some(routine) => Ok(routine),
            None => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, self.missing_routine(kind, name)?)),
        }
    }

    /// The routine that DROP, ALTER and COMMENT name; `None` if there is none.
    fn find_routine(&mut self, kind: ObjectKind, name: &RoutineName) -> Result<Option<Arc<Routine>>> {
        let catalog = self.current_catalog();
        let path = self.environment().path();
        self.environment().check_usage_of(&name.name)?;
        let mut found = catalog.find_routines(name.name.schema(), name.name.last(), &path);
        if let Some(types) = &name.types {
            let mut wanted = Vec::with_capacity(types.len());
            for ty in types {
                let resolved = self.routine_type(ty)?;
                wanted.push(resolved.row_of.map_or(resolved.ty, Type::row_of));
            }
            found.retain(|routine| routine.input_types() == wanted);
        }
        if found.len() > 1 {
            let of_kind = |routine: &Arc<Routine>| routine.is_procedure == (kind == ObjectKind::Procedure);
            if kind != ObjectKind::Routine && found.iter().any(of_kind) {
                found.retain(of_kind);
            }
        }
        if found.len() > 1 {
            let message = format!("function name \"{}\" is not unique", name.name);
            let hint = "Specify the argument list to select the function unambiguously.";
            return Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message).with_hint(hint));
        }
        let Some(routine) = found.pop() else { return Ok(None) };
        let is_wrong = match kind {
            ObjectKind::Function => routine.is_procedure,
            ObjectKind::Procedure => !routine.is_procedure,
            _ => false,
        };
        if is_wrong {
            let signature = routine.signature(|ty| catalog.type_display(ty));
            let wanted = if routine.is_procedure { "function" } else { "procedure" };
            let message = format!("{signature} is not a {wanted}");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Ok(Some(routine))
    }

    fn missing_routine(&mut self, kind: ObjectKind, name: &RoutineName) -> Result<String> {
        let kind = match kind {
            ObjectKind::Procedure => "procedure",
            ObjectKind::Routine => "routine",
            _ => "function",
        };
        let Some(types) = &name.types else {
            return Ok(format!("could not find a {kind} named \"{}\"", name.name));
        };
        let mut names = Vec::with_capacity(types.len());
        for ty in types {
            let ty = self.routine_type(ty)?.ty;
            names.push(self.environment().catalog.type_display(ty));
        }
        Ok(format!("{kind} {}({}) does not exist", name.name, names.join(", ")))
    }

    pub(crate) fn drop_routines(&mut self, drop: &DropRoutines) -> Result<&'static str> {
        let mut dropped = Vec::new();
        for name in &drop.names {
            match self.find_routine(drop.kind, name)? {
                Some(routine) => {
                    // The owner of a schema drops what is in it.
                    let schema = self.environment().catalog.schema(&routine.schema);
                    if !schema.is_some_and(|it| self.environment().catalog.is_owner(self.role(), &it.rights))
                    {
                        self.check_routine_owner(&routine)?;
                    }
                    self.refuse_member(&routine)?;
                    dropped.push(routine);
                }
                None => {
                    let message = self.missing_routine(drop.kind, name)?;
                    if !drop.if_exists {
                        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
                    }
                    let message = match &name.types {
                        Some(_) => format!("{message}, skipping"),
                        None => format!("function {}() does not exist, skipping", name.name),
                    };
                    self.environment_mut().add_notice(
                        Severity::Notice,
                        SqlState::SUCCESSFUL_COMPLETION,
                        message,
                    );
                }
            }
        }
        self.drop_routines_with_dependents(dropped, drop.cascade)?;
        Ok(match drop.kind {
            ObjectKind::Procedure => "DROP PROCEDURE",
            ObjectKind::Routine => "DROP ROUTINE",
            _ => "DROP FUNCTION",
        })
    }

    /// Refuses to drop a routine that an extension needs.
    fn refuse_member(&self, routine: &Routine) -> Result<()> {
        let catalog = self.current_catalog();
        let Some(extension) = routine.extension.and_then(|oid| catalog.extension_by_oid(oid)) else {
            return Ok(());
        };
        let (name, display) = (&extension.name, |ty| catalog.type_display(ty));
        let message = format!(
            "cannot drop function {} because extension {name} requires it",
            routine.signature(display)
        );
        let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
        Err(error.with_hint(format!("You can drop extension {name} instead.")))
    }

    pub(crate) fn alter_routine(&mut self, alter: &AlterRoutine) -> Result<&'static str> {
        let Some(known) = self.find_routine(alter.kind, &alter.name)? else {
            let message = self.missing_routine(alter.kind, &alter.name)?;
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        };
        if let RoutineChange::Owner(owner) = &alter.change
            && self.role_named(owner)? == known.rights.owner
        {
            return Ok(alter_tag(alter.kind, &known));
        }
        self.check_routine_owner(&known)?;
        let mut catalog = self.catalog_to_change();
        let mut routine = known.as_ref().clone();
        match &alter.change {
            RoutineChange::Rename(name) => routine.name.clone_from(&name.text),
            RoutineChange::Schema(schema) if catalog.schema(&schema.text).is_none() => {
                return Err(no_schema(&schema.text));
            }
            RoutineChange::Schema(schema) => {
                self.check_schema(&schema.text, CREATE)?;
                routine.schema.clone_from(&schema.text);
            }
            RoutineChange::Options(options) => {
                change_options(&mut routine, options)?;
                routine.is_leakproof = self.leakproof(options)?.unwrap_or(routine.is_leakproof);
                routine.settings = self.routine_settings(routine.settings, &options.settings)?;
            }
            RoutineChange::Comment(comment) => routine.comment.clone_from(comment),
            RoutineChange::Owner(owner) => {
                let owner = self.new_owner(owner)?;
                if !self.is_superuser() {
                    self.check_schema_for(owner, &known.schema, CREATE)?;
                }
                routine.rights.change_owner(owner);
            }
        }
        let moves = (&known.schema, &known.name) != (&routine.schema, &routine.name);
        let taken = catalog.routines_of(&routine.schema, &routine.name);
        if moves && taken.iter().any(|other| other.input_types() == routine.input_types()) {
            let signature = routine.signature(|ty| catalog.type_display(ty));
            let message = format!("function {signature} already exists in schema \"{}\"", routine.schema);
            return Err(SqlError::new(SqlState::DUPLICATE_FUNCTION, message));
        }
        let mut changed = if moves { rename_routine(&mut catalog, &known, &routine)? } else { Vec::new() };
        catalog.put_routine(Arc::new(routine.clone()));
        changed.push(Object::Routine(routine));
        self.publish(&changed, catalog)?;
        Ok(match &alter.change {
            RoutineChange::Comment(_) => "COMMENT",
            _ => alter_tag(alter.kind, &known),
        })
    }
}

/// The tag of an ALTER of a routine, as the statement names its kind.
fn alter_tag(kind: ObjectKind, known: &Routine) -> &'static str {
    match kind {
        ObjectKind::Routine => "ALTER ROUTINE",
        _ if known.is_procedure => "ALTER PROCEDURE",
        _ => "ALTER FUNCTION",
    }
}

fn change_options(routine: &mut Routine, options: &RoutineOptions) -> Result<()> {
    if options.body.is_some() || options.language.is_some() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "ALTER FUNCTION changes no body and no language")
            .with_hint("Use CREATE OR REPLACE FUNCTION."));
    }
    routine.stability = options.stability.unwrap_or(routine.stability);
    routine.is_strict = options.is_strict.unwrap_or(routine.is_strict);
    routine.is_definer = options.is_definer.unwrap_or(routine.is_definer);
    Ok(())
}

fn check_arguments(arguments: &[Argument]) -> Result<()> {
    let mut has_default = false;
    for (at, argument) in arguments.iter().enumerate() {
        let is_input = argument.mode.is_input();
        let clashes = |other: &Argument| !argument.name.is_empty() && other.name == argument.name;
        if arguments[..at].iter().any(clashes) {
            return Err(invalid(format!("parameter name \"{}\" used more than once", argument.name)));
        }
        if is_input && has_default && argument.default.is_none() {
            let message = "input parameters after one with a default value must also have defaults";
            return Err(invalid(message));
        }
        if !is_input && argument.default.is_some() {
            return Err(invalid("only input parameters can have default values"));
        }
        if argument.mode == ArgumentMode::Variadic {
            if argument.ty.declared_element().is_none() {
                return Err(invalid("VARIADIC parameter must be an array"));
            }
            if arguments[at + 1..].iter().any(|later| later.mode.is_input()) {
                return Err(invalid("VARIADIC parameter must be the last input parameter"));
            }
        }
        has_default |= is_input && argument.default.is_some();
    }
    Ok(())
}

/// Refuses a polymorphic result that no argument decides.
fn check_decided(routine: &Routine) -> Result<()> {
    let outputs = routine.outputs().map(|argument| argument.ty).chain([routine.result]);
    for output in outputs.filter(|ty| ty.is_polymorphic()) {
        let is_same =
            |input: &Type| input.is_polymorphic() && input.is_any_compatible() == output.is_any_compatible();
        if !routine.input_types().iter().any(is_same) {
            let inputs = match output.is_any_compatible() {
                true => "anycompatible, anycompatiblearray or anycompatiblenonarray",
                false => "anyelement, anyarray, anynonarray or anyenum",
            };
            let detail = format!(
                "A result of type {} requires at least one input of type {inputs}.",
                output.display_name()
            );
            return Err(invalid("cannot determine result data type").with_detail(detail));
        }
    }
    Ok(())
}

/// A type that a routine names.
pub(crate) struct ResolvedType {
    pub ty: Type,
    pub modifier: Modifier,
    /// The table whose row it is.
    pub row_of: Option<u32>,
    /// The domain, if it is one.
    pub domain: Option<u32>,
}

/// The type that a routine's name of a type means.
///
/// # Errors
/// 42704, 42P01, 42703.
pub(crate) fn resolve_type(
    environment: &mut crate::session::SessionEnvironment,
    ty: &RoutineType,
) -> Result<ResolvedType> {
    let plain = |ty, modifier, domain| ResolvedType { ty, modifier, row_of: None, domain };
    let catalog = environment.catalog.clone();
    let path = environment.path();
    if !ty.is_copied {
        environment.check_usage_of(&ty.name.name)?;
    }
    if ty.is_copied {
        let Some((column, table)) = ty.name.name.parts.split_last().filter(|(_, table)| !table.is_empty())
        else {
            let message = format!("invalid type name \"{}%TYPE\"", ty.name.name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        };
        let name = ObjectName { parts: table.to_vec() };
        environment.check_usage_of(&name)?;
        let Some(Relation::Table(table)) = catalog.find(name.schema(), name.last(), &path) else {
            return Err(crate::catalog::no_relation(&name.to_string()));
        };
        let found = table.columns.iter().find(|known| known.name == column.text).ok_or_else(|| {
            let message = format!("column \"{}\" of relation \"{}\" does not exist", column.text, table.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        return Ok(plain(found.ty, found.modifier, found.domain));
    }
    let relation = catalog.find(ty.name.name.schema(), ty.name.name.last(), &path);
    if ty.is_row && relation.is_none() {
        return Err(crate::catalog::no_relation(&ty.name.name.to_string()));
    }
    let context = crate::bind::BindContext { catalog: &catalog, path: &path, text: "" };
    let mut binder = crate::bind::Binder::new(context, environment, &[]);
    binder.foreign_text = true;
    let name = crate::parse::syntax::TypeName { set_of: false, ..ty.name.clone() };
    if !ty.is_row {
        match (binder.named_type(&name), relation) {
            (Ok(named), _) => {
                let domain = named.domain.map(|domain| domain.oid);
                return Ok(match named.ty.row_relation() {
                    Some(relation) => {
                        ResolvedType { row_of: Some(relation), ..plain(Type::Record, Modifier::NONE, domain) }
                    }
                    None => plain(named.ty, named.modifier, domain),
                });
            }
            (Err(error), Some(Relation::Table(_))) if error.state() == SqlState::UNDEFINED_OBJECT => {}
            (Err(error), _) => return Err(error),
        }
    }
    match relation {
        Some(Relation::Table(table)) if ty.name.dimensions == 0 => {
            let row_of = Some(table.oid);
            Ok(ResolvedType { ty: Type::Record, modifier: Modifier::NONE, row_of, domain: None })
        }
        _ => Err(SqlError::unsupported("rows of this relation are not supported as a type")),
    }
}

/// The name of a routine as DROP and messages show it: `schema.name(integer, text)`.
pub(crate) fn shown(catalog: &Catalog, routine: &Routine) -> String {
    format!("function {}", routine.signature(|ty| catalog.type_display(ty)))
}
