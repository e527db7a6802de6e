//! Values of parameters as SQL's: numbers, texts and bytes here, everything else through the text that
//! `heddledb._adapt` makes of it.

use heddle_sql::{Connection, SqlError, SqlState, Type, Value};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use crate::errors::exception;

/// A parameter on its way into a statement.
pub enum Parameter {
    Value(Value),
    /// A value's text, which the session reads by the parameter's type.
    Text(String),
}

impl Parameter {
    /// The value, for a parameter of this type.
    pub fn decode(self, connection: &mut Connection, kind: Type) -> Result<Value, SqlError> {
        match self {
            Parameter::Value(value) => Ok(value),
            Parameter::Text(text) => connection.decode_text(kind, &text),
        }
    }
}

/// A function of `heddledb._adapt`.
fn adapt<'py>(
    py: Python<'py>,
    name: &str,
    known: &'static PyOnceLock<Py<PyAny>>,
) -> PyResult<&'py Bound<'py, PyAny>> {
    let found = known
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("heddledb._adapt")?.getattr(name)?.unbind()))?;
    Ok(found.bind(py))
}

/// The oid of the type that a value suggests for its parameter; 0: the statement decides.
pub fn hint(object: &Bound<'_, PyAny>) -> PyResult<u32> {
    static HINT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    Ok(if object.is_none() || object.is_exact_instance_of::<PyString>() {
        0
    } else if object.is_exact_instance_of::<PyInt>() {
        match object.extract::<i64>() {
            Ok(number) if i32::try_from(number).is_ok() => Type::Int4.oid(),
            Ok(_) => Type::Int8.oid(),
            Err(_) => Type::Numeric.oid(),
        }
    } else if object.is_exact_instance_of::<PyFloat>() {
        Type::Float8.oid()
    } else if object.is_exact_instance_of::<PyBool>() {
        Type::Bool.oid()
    } else if object.is_exact_instance_of::<PyBytes>() {
        Type::Bytea.oid()
    } else {
        adapt(py, "hint", &HINT)?.call1((object,))?.extract()?
    })
}

/// The parameter that a Python object is, for a parameter of this type.
pub fn to_sql(object: &Bound<'_, PyAny>, kind: Type) -> PyResult<Parameter> {
    static LITERAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    if object.is_none() {
        return Ok(Parameter::Value(Value::Null));
    }
    if let Ok(text) = object.cast_exact::<PyString>() {
        let text = text.to_cow()?;
        check_text(py, &text)?;
        return Ok(match kind {
            Type::Text | Type::Varchar => Parameter::Value(Value::text(&*text)),
            _ => Parameter::Text(text.into_owned()),
        });
    }
    if object.is_exact_instance_of::<PyInt>() {
        let number = object.extract::<i64>();
        let value = match (kind, number) {
            (Type::Int8, Ok(number)) => Some(Value::Int8(number)),
            (Type::Int4, Ok(number)) => i32::try_from(number).ok().map(Value::Int4),
            (Type::Int2, Ok(number)) => i16::try_from(number).ok().map(Value::Int2),
            (Type::Float8, Ok(number)) => Some(Value::Float8(number as f64)),
            _ => None,
        };
        return match value {
            Some(value) => Ok(Parameter::Value(value)),
            None => Ok(Parameter::Text(object.str()?.to_cow()?.into_owned())),
        };
    }
    if let (Type::Float8, Ok(number)) = (kind, object.cast_exact::<PyFloat>()) {
        return Ok(Parameter::Value(Value::Float8(number.value())));
    }
    if let (Type::Bool, Ok(truth)) = (kind, object.cast_exact::<PyBool>()) {
        return Ok(Parameter::Value(Value::Bool(truth.is_true())));
    }
    if let (Type::Bytea, Ok(bytes)) = (kind, object.cast_exact::<PyBytes>()) {
        return Ok(Parameter::Value(Value::bytes(bytes.as_bytes())));
    }
    let is_json = matches!(kind, Type::Json | Type::Jsonb);
    let literal = adapt(py, "literal", &LITERAL)?.call1((object, is_json))?;
    let text = literal.extract::<String>()?;
    check_text(py, &text)?;
    Ok(Parameter::Text(text))
}

/// Texts of SQL have no character 0.
fn check_text(py: Python<'_>, text: &str) -> PyResult<()> {
    if text.contains('\0') {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(exception(py, &SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)));
    }
    Ok(())
}
