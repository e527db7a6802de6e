//! The extended protocol's messages but Execute: statements are prepared, portals bound and described.

use std::collections::HashMap;

use heddle_sql::types::binary::utf8;
use heddle_sql::{Connection, Field, SqlError, SqlState, Type, Value};

use super::backend::Backend;
use super::results::column;
use crate::wire::decode::{Bind, Format, Formats, Message, Named};

/// The formats that clients asked for when they bound their portals.
#[derive(Debug, Default)]
pub(super) struct Portals {
    unnamed: Formats,
    named: HashMap<String, Formats>,
}

impl Portals {
    pub(super) fn formats(&self, portal: &str) -> Formats {
        match portal {
            "" => self.unnamed.clone(),
            // A cursor of DECLARE is none of the protocol's portals: its rows are texts.
            named => self.named.get(named).cloned().unwrap_or_default(),
        }
    }

    fn insert(&mut self, portal: &str, formats: Formats) {
        match portal {
            "" => self.unnamed = formats,
            named => drop(self.named.insert(named.to_owned(), formats)),
        }
    }

    /// Portals end with their transaction.
    pub(super) fn end_of_transaction(&mut self, connection: &Connection) {
        self.named.retain(|name, _| connection.has_portal(name));
    }
}

impl Backend {
    /// Parse, Bind, Describe or Close.
    pub(super) fn prepare_or_describe(&mut self, message: Message<'_>) -> Result<(), SqlError> {
        match message {
            Message::Parse { name, query, types } => {
                self.connection.prepare(name, query, &types)?;
                self.output().parse_complete();
                Ok(())
            }
            Message::Bind(bind) => self.bind(bind),
            Message::Describe(Named::Statement(name)) => {
                let (parameters, fields) = self.connection.describe_statement(name)?;
                self.output().parameter_description(parameters.iter().map(|ty| ty.oid()));
                self.describe(fields.as_deref(), &Formats::default());
                Ok(())
            }
            Message::Describe(Named::Portal(name)) => {
                let fields = self.connection.describe_portal(name)?;
                let formats = self.portals.formats(name);
                self.describe(fields.as_deref(), &formats);
                Ok(())
            }
            Message::Close(Named::Statement(name)) => {
                self.connection.close_statement(name);
                self.output().close_complete();
                Ok(())
            }
            Message::Close(Named::Portal(name)) => {
                // Its formats are left, since a replay of the pipeline may bring it back.
                self.connection.close_portal(name);
                self.output().close_complete();
                Ok(())
            }
            _ => Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, "unexpected message")),
        }
    }

    fn bind(&mut self, bind: Bind<'_>) -> Result<(), SqlError> {
        let types = self.connection.parameter_types(bind.statement)?;
        if types.len() != bind.parameters.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.parameters.len(),
                bind.statement,
                types.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        let parameters = types
            .iter()
            .zip(&bind.parameters)
            .enumerate()
            .map(|(at, (ty, bytes))| {
                parameter(&mut self.connection, *ty, *bytes, bind.parameter_formats.at(at))
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.connection.bind(bind.portal, bind.statement, parameters)?;
        if let Formats::Each(_) = bind.result_formats
            && let Some(fields) = self.connection.describe_portal(bind.portal)?
        {
            let of = format!("query has {} columns", fields.len());
            let checked = bind.result_formats.check(fields.len(), "result", &of);
            checked.map_err(|error| SqlError::new(SqlState::PROTOCOL_VIOLATION, error.message))?;
        }
        self.portals.insert(bind.portal, bind.result_formats);
        self.output().bind_complete();
        Ok(())
    }

    fn describe(&mut self, fields: Option<&[Field]>, formats: &Formats) {
        match fields {
            None => self.output().no_data(),
            Some(fields) => {
                let columns = fields.iter().enumerate();
                self.output().row_description(columns.map(|(at, field)| column(field, formats.at(at))));
            }
        }
    }
}

/// A parameter's value.
fn parameter(
    connection: &mut Connection,
    ty: Type,
    bytes: Option<&[u8]>,
    format: Format,
) -> Result<Value, SqlError> {
    let Some(bytes) = bytes else { return Ok(Value::Null) };
    match format {
        Format::Binary => connection.decode_binary(ty, bytes),
        Format::Text => connection.decode_text(ty, utf8(bytes)?),
    }
}
