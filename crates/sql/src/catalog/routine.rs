//! Functions, procedures and triggers as the catalog keeps them.
//!
//! Invariants: a routine's body is kept as it was written, and is parsed when it is first called in a connection. Two
//! routines of one schema and name differ in the types of their input arguments.

use crate::catalog::rights::Rights;
use crate::catalog::stored;
use crate::types::{Modifier, Type, Value};

/// The language of a routine's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Language {
    Sql,
    Plpgsql,
    /// A function of an extension: the body is the signature of the code (`extension::function`).
    C,
}

impl Language {
    /// Its oid in `pg_language`: PostgreSQL's of sql, and one behind those of plpgsql.
    pub fn oid(self) -> u32 {
        match self {
            Language::C => 13,
            Language::Sql => 14,
            Language::Plpgsql => 13_999,
        }
    }

    /// Its name in `pg_language`.
    pub fn name(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Sql => "sql",
            Language::Plpgsql => "plpgsql",
        }
    }
}

/// The mode in which an argument is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum ArgumentMode {
    In,
    Out,
    InOut,
    Variadic,
    /// A column of RETURNS TABLE.
    Table,
}

impl ArgumentMode {
    /// Returns true if a call of a function gives the argument.
    pub fn is_input(self) -> bool {
        matches!(self, ArgumentMode::In | ArgumentMode::InOut | ArgumentMode::Variadic)
    }

    /// Returns true if the argument is a part of the result.
    pub fn is_output(self) -> bool {
        matches!(self, ArgumentMode::Out | ArgumentMode::InOut | ArgumentMode::Table)
    }

    /// The letter in `pg_proc.proargmodes`.
    pub fn letter(self) -> char {
        match self {
            ArgumentMode::In => 'i',
            ArgumentMode::Out => 'o',
            ArgumentMode::InOut => 'b',
            ArgumentMode::Variadic => 'v',
            ArgumentMode::Table => 't',
        }
    }
}

/// An argument of a routine.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Argument {
    /// Its name; empty: it has none.
    pub name: String,
    pub mode: ArgumentMode,
    #[serde(with = "stored::oid")]
    pub ty: Type,
    /// DEFAULT, as SQL text.
    pub default: Option<String>,
    /// The table whose row the result is.
    #[serde(default)]
    pub row_of: Option<u32>,
    /// The domain, if the type was declared as one; `ty` is the type beneath.
    #[serde(default)]
    pub domain: Option<u32>,
}

/// A column of a routine's result.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ResultColumn {
    pub name: String,
    #[serde(with = "stored::oid")]
    pub ty: Type,
    #[serde(with = "stored::modifier")]
    pub modifier: Modifier,
    /// The domain whose value it is.
    #[serde(default)]
    pub domain: Option<u32>,
}

/// The volatility of a routine: it decides if its calls may be evaluated ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Stability {
    Immutable,
    Stable,
    Volatile,
}

impl Stability {
    /// The letter in `pg_proc.provolatile`.
    pub fn letter(self) -> char {
        match self {
            Stability::Immutable => 'i',
            Stability::Stable => 's',
            Stability::Volatile => 'v',
        }
    }
}

/// A function or a procedure.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Routine {
    /// Its oid.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    pub is_procedure: bool,
    pub language: Language,
    /// All arguments in order, those of the result included.
    pub arguments: Vec<Argument>,
    /// The type of the result, or of one row; `record` for several columns.
    #[serde(with = "stored::oid")]
    pub result: Type,
    /// True if it returns rows.
    pub is_set: bool,
    /// The table whose rows it returns, if the result was declared so.
    pub row_of: Option<u32>,
    /// The domain of the result, if it was declared as one.
    #[serde(default)]
    pub result_domain: Option<u32>,
    /// True if NULL among the arguments makes the result NULL.
    pub is_strict: bool,
    pub stability: Stability,
    /// The body, as it was written.
    pub body: String,
    /// True if the body is of the standard's form: what it names is settled, and is kept from being dropped.
    #[serde(default)]
    pub is_settled: bool,
    /// COMMENT ON FUNCTION.
    pub comment: Option<String>,
    /// Its owner, and what was granted on it.
    #[serde(default)]
    pub rights: Rights,
    /// SECURITY DEFINER: it runs with its owner's privileges.
    #[serde(default)]
    pub is_definer: bool,
    /// LEAKPROOF, which a superuser says.
    #[serde(default)]
    pub is_leakproof: bool,
    /// SET: names and values of the settings that it runs with.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// The oid of the extension that it belongs to.
    #[serde(default)]
    pub extension: Option<u32>,
}

impl Routine {
    /// The arguments that a call gives; in a CALL, those of the result count as well.
    pub fn inputs(&self) -> impl Iterator<Item = &Argument> {
        let all = self.is_procedure;
        self.arguments.iter().filter(move |argument| all || argument.mode.is_input())
    }

    /// The types of the input arguments, by which overloads differ.
    pub fn input_types(&self) -> Vec<Type> {
        self.arguments.iter().filter(|it| it.mode.is_input()).map(|argument| argument.ty).collect()
    }

    /// The arguments that make up the result.
    pub fn outputs(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|argument| argument.mode.is_output())
    }

    /// Returns true if an argument or the result, or a part of it, is a row of this table.
    pub fn names_row_of(&self, table: u32) -> bool {
        let mut rows = self.arguments.iter().map(|argument| argument.row_of).chain([self.row_of]);
        rows.any(|row| row == Some(table))
    }

    /// Returns true if the last argument may be repeated.
    pub fn is_variadic(&self) -> bool {
        self.arguments.iter().any(|argument| argument.mode == ArgumentMode::Variadic)
    }

    /// Returns true if a call decides the type of an argument or of the result.
    pub fn is_polymorphic(&self) -> bool {
        self.result.is_polymorphic() || self.arguments.iter().any(|argument| argument.ty.is_polymorphic())
    }

    /// The routine for calls that decide these types, of all arguments and of the result.
    pub fn with_types(&self, types: &[Type]) -> Routine {
        let mut routine = self.clone();
        let row = |ty: Type| (Type::Record, ty.row_relation());
        for (argument, &ty) in routine.arguments.iter_mut().zip(types) {
            if argument.ty.is_polymorphic() {
                argument.ty = ty;
                if !argument.mode.is_input() && ty.row_relation().is_some() {
                    (argument.ty, argument.row_of) = row(ty);
                }
            }
        }
        if let Some(&ty) = types.last().filter(|_| self.result.is_polymorphic()) {
            routine.result = ty;
            if ty.row_relation().is_some() {
                (routine.result, routine.row_of) = row(ty);
            }
        }
        routine
    }

    /// The types that a call has decided, from the value in which it passes them.
    pub fn types_of(value: &Value) -> Vec<Type> {
        let oids = value.as_array().values.iter().map(Value::oid);
        oids.map(|oid| Type::from_oid(oid).unwrap_or(Type::Unknown)).collect()
    }

    /// The routine's kind, as in messages.
    pub fn kind(&self) -> &'static str {
        if self.is_procedure { "procedure" } else { "function" }
    }

    /// `name(integer, text)`, as messages and `regprocedure` show it.
    pub fn signature(&self, display: impl Fn(Type) -> String) -> String {
        let types: Vec<String> = self.input_types().into_iter().map(display).collect();
        format!("{}({})", self.name, types.join(","))
    }
}

/// The time at which a trigger fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum TriggerTime {
    Before,
    After,
}

/// A trigger of a table.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Trigger {
    /// Its oid.
    pub oid: u32,
    /// The table that it belongs to.
    pub table: u32,
    /// Its name.
    pub name: String,
    pub time: TriggerTime,
    /// True if it fires for each row, false if once for a statement.
    pub for_each_row: bool,
    pub on_insert: bool,
    pub on_update: bool,
    pub on_delete: bool,
    /// UPDATE OF: the columns' names; empty: any.
    pub columns: Vec<String>,
    /// WHEN, as SQL text.
    pub condition: Option<String>,
    /// The function that it calls.
    pub function: u32,
    /// `TG_ARGV`
    pub arguments: Vec<String>,
    /// COMMENT ON TRIGGER.
    #[serde(default)]
    pub comment: Option<String>,
    #[serde(default)]
    pub on_truncate: bool,
    /// REFERENCING OLD TABLE and NEW TABLE: their names.
    #[serde(default)]
    pub old_table: Option<String>,
    #[serde(default)]
    pub new_table: Option<String>,
    /// DISABLE TRIGGER.
    #[serde(default)]
    pub is_disabled: bool,
    /// CREATE CONSTRAINT TRIGGER.
    #[serde(default)]
    pub is_constraint: bool,
    /// DEFERRABLE, of a constraint trigger.
    #[serde(default)]
    pub is_deferrable: bool,
    /// INITIALLY DEFERRED.
    #[serde(default)]
    pub is_deferred: bool,
}

/// The change of a row by a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Insert,
    Update,
    Delete,
    Truncate,
}

impl Event {
    /// `TG_OP`
    pub fn name(self) -> &'static str {
        match self {
            Event::Insert => "INSERT",
            Event::Update => "UPDATE",
            Event::Delete => "DELETE",
            Event::Truncate => "TRUNCATE",
        }
    }
}

impl Trigger {
    /// Returns true if its function sees all rows that the statement has changed.
    pub fn has_transition_tables(&self) -> bool {
        self.old_table.is_some() || self.new_table.is_some()
    }

    /// Returns true if it fires for an event; of an update, for one that sets these columns.
    pub fn fires_on(&self, event: Event, is_set: impl Fn(&str) -> bool) -> bool {
        if self.is_disabled {
            return false;
        }
        match event {
            Event::Truncate => self.on_truncate,
            Event::Insert => self.on_insert,
            Event::Update => {
                self.on_update && (self.columns.is_empty() || self.columns.iter().any(|name| is_set(name)))
            }
            Event::Delete => self.on_delete,
        }
    }
}
