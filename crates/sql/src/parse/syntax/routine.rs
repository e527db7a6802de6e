//! Statements about functions and procedures.

use crate::catalog::{ArgumentMode, Language, Stability, TriggerTime};
use crate::parse::syntax::{At, Call, Name, ObjectKind, ObjectName, RoleName, SetValue, TextExpr, TypeName};

/// A type as routines name it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RoutineType {
    pub name: TypeName,
    /// `name%TYPE`: the type of a column or, in PL/pgSQL, of a variable.
    pub is_copied: bool,
    /// `name%ROWTYPE`: the row of a table.
    pub is_row: bool,
}

/// An argument in CREATE FUNCTION.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArgumentSyntax {
    pub name: Option<Name>,
    pub mode: ArgumentMode,
    pub ty: RoutineType,
    pub default: Option<TextExpr>,
}

/// CREATE FUNCTION and CREATE PROCEDURE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateRoutine {
    pub name: ObjectName,
    pub or_replace: bool,
    pub is_procedure: bool,
    pub arguments: Vec<ArgumentSyntax>,
    /// RETURNS; `None`: not said, or RETURNS TABLE.
    pub returns: Option<RoutineType>,
    pub options: RoutineOptions,
}

/// The options after the arguments of CREATE FUNCTION, in any order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RoutineOptions {
    pub language: Option<Language>,
    pub body: Option<String>,
    /// The texts of the statements of a body in the SQL standard's form, whose names mean what they mean when it is
    /// defined.
    pub statements: Option<Vec<String>>,
    pub stability: Option<Stability>,
    pub is_strict: Option<bool>,
    /// SECURITY DEFINER.
    pub is_definer: Option<bool>,
    /// LEAKPROOF.
    pub is_leakproof: Option<bool>,
    /// SET and RESET, in order.
    pub settings: Vec<RoutineSetting>,
}

/// SET and RESET of a setting that a routine runs with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RoutineSetting {
    /// A value, or the default, which is none.
    To(String, SetValue),
    /// SET … FROM CURRENT.
    FromCurrent(String),
    /// RESET; `None` for ALL.
    Reset(Option<String>),
}

/// A routine as DROP, ALTER and COMMENT name it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RoutineName {
    pub name: ObjectName,
    /// The types of its input arguments; `None`: there is only one of the name.
    pub types: Option<Vec<RoutineType>>,
}

/// DROP FUNCTION, DROP PROCEDURE, DROP ROUTINE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DropRoutines {
    pub kind: ObjectKind,
    pub names: Vec<RoutineName>,
    pub if_exists: bool,
    pub cascade: bool,
}

/// ALTER FUNCTION and ALTER PROCEDURE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlterRoutine {
    pub kind: ObjectKind,
    pub name: RoutineName,
    pub change: RoutineChange,
}

/// The change made by ALTER FUNCTION.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RoutineChange {
    Rename(Name),
    Schema(Name),
    Options(RoutineOptions),
    Comment(Option<String>),
    Owner(RoleName),
}

/// CREATE TRIGGER.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateTrigger {
    pub name: Name,
    pub or_replace: bool,
    pub time: TriggerTime,
    pub on_insert: bool,
    pub on_update: bool,
    pub on_delete: bool,
    pub on_truncate: bool,
    /// REFERENCING OLD TABLE AS name.
    pub old_table: Option<Name>,
    /// REFERENCING NEW TABLE AS name.
    pub new_table: Option<Name>,
    /// CREATE CONSTRAINT TRIGGER, and whether it is DEFERRABLE.
    pub is_constraint: bool,
    pub is_deferrable: bool,
    /// INITIALLY DEFERRED.
    pub is_deferred: bool,
    /// UPDATE OF.
    pub columns: Vec<Name>,
    pub table: ObjectName,
    pub for_each_row: bool,
    pub condition: Option<TextExpr>,
    pub function: ObjectName,
    pub arguments: Vec<String>,
}

/// DROP TRIGGER, and ALTER TRIGGER … RENAME TO.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TriggerChange {
    pub name: Name,
    pub table: ObjectName,
    pub if_exists: bool,
    /// `None`: it is dropped.
    pub to: Option<Name>,
}

/// DO.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Do {
    pub language: Language,
    pub body: String,
}

/// CALL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallStatement {
    pub call: Call,
    pub at: At,
}
