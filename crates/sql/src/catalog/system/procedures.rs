//! `pg_proc`, `pg_operator`, `pg_cast`: the functions, operators and casts of the tables, and the functions that read
//! and write values of types.
//!
//! The latter have PostgreSQL's oids, because clients compare them (`typinput = 'array_in'::regproc`). The others have
//! their places in the tables behind 11,000: they say nothing outside of this version.

use super::classes::schema_oid;
use super::privileges::acl_of;
use super::routines::{library, source};
use super::row::{Output, list, row, vector};
use super::types::TYPE_FUNCTIONS;
use super::{OWNER, PG_CATALOG, PG_CATALOG_OID, SystemCatalog};
use crate::catalog::rights::Rights;
use crate::catalog::{ArgumentMode, Language, Routine};
use crate::functions::{Function, FunctionKind, Volatility, all_functions, all_operators};
use crate::types::cast::{CastContext, all_casts, is_relabel};
use crate::types::{Type, Value};

/// The oid of the first function of the tables.
const FIRST: u32 = 11_000;
/// The most bytes of a name.
const NAME_BYTES_MAX: usize = 63;

/// Functions that SQL text cannot call.
fn is_hidden(function: &Function) -> bool {
    function.name == super::ROWS || crate::bind::routines::is_call(function)
}

fn functions() -> impl Iterator<Item = (u32, &'static Function)> {
    (FIRST..).zip(all_functions()).filter(|(_, function)| !is_hidden(function))
}

/// The name of the function with this oid.
pub(super) fn function_name(oid: u32) -> Option<&'static str> {
    let of_type = TYPE_FUNCTIONS.iter().find(|(known, _)| *known == oid).map(|(_, name)| *name);
    of_type.or_else(|| function_by_oid(oid).map(|function| function.name))
}

/// The function of the tables with this oid.
pub(super) fn function_by_oid(oid: u32) -> Option<&'static Function> {
    let at = usize::try_from(oid.checked_sub(FIRST)?).ok()?;
    all_functions().get(at)
}

/// Returns true if a function has this oid.
pub(super) fn is_function(oid: u32) -> bool {
    function_name(oid).is_some()
}

/// The first function with this name.
pub(super) fn function_oid(name: &str) -> Option<u32> {
    let first = || functions().find(|(_, function)| function.name == name).map(|(oid, _)| oid);
    type_function_oid(name).or_else(first)
}

/// The function that reads or writes values of a type and has this name.
pub(super) fn type_function_oid(name: &str) -> Option<u32> {
    TYPE_FUNCTIONS.iter().find(|(_, known)| *known == name).map(|(oid, _)| *oid)
}

/// The function of the tables with this name and these arguments.
pub(super) fn overload_oid(name: &str, types: &[Type]) -> Option<u32> {
    let found = functions().find(|(_, it)| it.name == name && *it.arguments == *types);
    found.map(|(oid, _)| oid)
}

/// The origin of a listed routine.
pub(super) enum Origin<'c> {
    User(&'c Routine),
    BuiltIn(&'static Function),
}

/// A function or procedure as `information_schema` lists it.
pub(super) struct Listed<'c> {
    pub oid: u32,
    pub schema: &'c str,
    pub name: &'c str,
    pub rights: Rights,
    pub origin: Origin<'c>,
}

impl Listed<'_> {
    /// The name with the oid behind it, which no other routine has: at most 63 bytes.
    pub fn specific_name(&self) -> String {
        let suffix = format!("_{}", self.oid);
        let end = self.name.floor_char_boundary(NAME_BYTES_MAX - suffix.len());
        format!("{}{suffix}", &self.name[..end])
    }
}

/// Visits the routines of users, then the functions of the tables. Functions that read and write values of types are
/// left out: SQL cannot call them here.
pub(super) fn each_routine<'c>(system: &SystemCatalog<'c>, mut visit: impl FnMut(Listed<'c>)) {
    for routine in system.objects().routines() {
        visit(Listed {
            oid: routine.oid,
            schema: &routine.schema,
            name: &routine.name,
            rights: routine.rights.clone(),
            origin: Origin::User(routine),
        });
    }
    for (oid, function) in functions() {
        let origin = Origin::BuiltIn(function);
        visit(Listed { oid, schema: PG_CATALOG, name: function.name, rights: Rights::default(), origin });
    }
}

pub(super) fn rows(system: &SystemCatalog<'_>, out: &mut Output) {
    for routine in system.objects().routines() {
        routine_row(system, out, routine);
    }
    for (oid, name) in TYPE_FUNCTIONS.iter() {
        row!(
            out,
            oid = *oid,
            proname = *name,
            pronamespace = PG_CATALOG_OID,
            proowner = OWNER,
            prolang = 12_u32,
            procost = 1.0_f32,
            prokind = 'f',
            proisstrict = true,
            provolatile = 'i',
            proparallel = 's',
            prosrc = *name,
        );
    }
    for (oid, function) in functions() {
        function_row(out, oid, function);
    }
}

/// A user-defined function or procedure.
fn routine_row(system: &SystemCatalog<'_>, out: &mut Output, routine: &Routine) {
    let inputs = routine.input_types();
    let with_modes = routine.arguments.iter().any(|argument| argument.mode != ArgumentMode::In);
    let all = |values: Value| if with_modes { values } else { Value::Null };
    let has_names = routine.arguments.iter().any(|argument| !argument.name.is_empty());
    let names = list(Type::Text, routine.arguments.iter().map(|argument| argument.name.as_str()));
    let variadic = routine.arguments.iter().find(|argument| argument.mode == ArgumentMode::Variadic);
    let defaults: Vec<&str> = routine.arguments.iter().filter_map(|it| it.default.as_deref()).collect();
    row!(
        out,
        oid = routine.oid,
        proname = routine.name.as_str(),
        pronamespace = schema_oid(system.objects(), &routine.schema),
        proowner = routine.rights.owner,
        proacl = acl_of(system, &routine.rights),
        prosecdef = routine.is_definer,
        proleakproof = routine.is_leakproof,
        proconfig = settings_of(routine),
        prolang = routine.language.oid(),
        procost = 100.0_f32,
        prorows = if routine.is_set { 1000.0_f32 } else { 0.0 },
        provariadic = variadic.and_then(|it| it.ty.element()).map_or(0, |element| element.oid()),
        prokind = if routine.is_procedure { 'p' } else { 'f' },
        proisstrict = routine.is_strict,
        proretset = routine.is_set,
        provolatile = routine.stability.letter(),
        proparallel = 'u',
        pronargs = inputs.len() as i16,
        pronargdefaults = defaults.len() as i16,
        prorettype = routine.result.oid(),
        proargtypes = vector(Type::Oid, inputs.iter().map(|ty| ty.oid())),
        proallargtypes = all(list(Type::Oid, routine.arguments.iter().map(|it| it.ty.oid()))),
        proargmodes = all(list(Type::Char, routine.arguments.iter().map(|it| it.mode.letter()))),
        proargnames = if has_names { names } else { Value::Null },
        proargdefaults = if defaults.is_empty() { Value::Null } else { Value::text(defaults.join(", ")) },
        prosrc = source(routine),
        probin = (routine.language == Language::C).then(|| library(system, routine)),
    );
}

/// `{name=value,…}` of the settings that a routine runs with.
fn settings_of(routine: &Routine) -> Value {
    if routine.settings.is_empty() {
        return Value::Null;
    }
    let settings: Vec<String> =
        routine.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    list(Type::Text, settings.iter().map(String::as_str))
}

fn function_row(out: &mut Output, oid: u32, function: &Function) {
    let (kind, is_set) = match function.kind {
        FunctionKind::Scalar(_) => ('f', false),
        FunctionKind::Set(_) => ('f', true),
        FunctionKind::Aggregate { .. } => ('a', false),
        FunctionKind::Window(_) => ('w', false),
    };
    let volatility = match function.volatility {
        Volatility::Immutable => 'i',
        Volatility::Stable => 's',
        Volatility::Volatile => 'v',
    };
    let has_names = function.argument_names.iter().any(|name| !name.is_empty());
    let names = || list(Type::Text, function.argument_names.iter().copied());
    let last = function.arguments.last().copied().unwrap_or(Type::Void);
    row!(
        out,
        oid = oid,
        proname = function.name,
        pronamespace = PG_CATALOG_OID,
        proowner = OWNER,
        prolang = 12_u32,
        procost = 1.0_f32,
        prorows = if is_set { 1000.0_f32 } else { 0.0 },
        provariadic = if function.is_variadic { last.element().unwrap_or(last).oid() } else { 0 },
        prokind = kind,
        proisstrict = function.is_strict,
        proretset = is_set,
        provolatile = volatility,
        proparallel = 's',
        pronargs = function.arguments.len() as i16,
        pronargdefaults = function.defaults.len() as i16,
        prorettype = function.result.oid(),
        proargtypes = vector(Type::Oid, function.arguments.iter().map(|ty| ty.oid())),
        proargnames = if has_names { names() } else { Value::Null },
        prosrc = function.name,
    );
}

/// The aggregates of the tables. Their transition functions are not shown: their code is no SQL function.
pub(super) fn aggregates(_: &SystemCatalog<'_>, out: &mut Output) {
    for (oid, function) in functions() {
        let FunctionKind::Aggregate { .. } = function.kind else { continue };
        row!(out, aggfnoid = oid, aggkind = 'n', aggfinalmodify = 'r', aggmfinalmodify = 'r');
    }
}

pub(super) fn operators(_: &SystemCatalog<'_>, out: &mut Output) {
    for (oid, operator) in (FIRST..).zip(all_operators()) {
        let argument = |at: usize| operator.arguments.get(at).map_or(0, |ty| ty.oid());
        let is_prefix = operator.arguments.len() == 1;
        row!(
            out,
            oid = oid,
            oprname = operator.name,
            oprnamespace = PG_CATALOG_OID,
            oprowner = OWNER,
            oprkind = if is_prefix { 'l' } else { 'b' },
            oprleft = if is_prefix { 0 } else { argument(0) },
            oprright = argument(usize::from(!is_prefix)),
            oprresult = operator.result.oid(),
        );
    }
}

pub(super) fn casts(_: &SystemCatalog<'_>, out: &mut Output) {
    for (oid, cast) in (FIRST..).zip(all_casts()) {
        let context = match cast.context {
            CastContext::Implicit => 'i',
            CastContext::Assignment => 'a',
            CastContext::Explicit => 'e',
        };
        row!(
            out,
            oid = oid,
            castsource = cast.from.oid(),
            casttarget = cast.to.oid(),
            castcontext = context,
            castmethod = if is_relabel(cast.from, cast.to) { 'b' } else { 'f' },
        );
    }
}
