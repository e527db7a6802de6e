//! COPY: tables and queries to text, CSV and the binary format, and back into tables.
//!
//! ```text
//! options  the options of a COPY
//! read     the fields of lines
//! write    rows as lines
//! binary   rows of the binary format, both ways
//! ```
//!
//! Invariants: a COPY FROM is one transaction, or part of one: a line that does not fit leaves no trace of any. An
//! error names the line. Files are never opened: data comes from the client, and goes to it.

mod binary;
mod options;
mod read;
mod write;

use std::sync::Arc;

use heddledb_transfer::csv::Lines;

use crate::catalog::{Column, ColumnOrigin, Relation};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{
    Alias, Copy, CopyDirection, CopySource as Source, Expr, ExprKind, Insert, InsertColumn, Name, ObjectName,
    Query, QueryBodySyntax, Select, SelectItem, Statement, TableRef,
};
use crate::run::KeptRows;
use crate::run::memory::Memory;
use crate::session::connection::Connection;
use crate::session::copy::options::{CopyOptions, Header};
use crate::session::copy::read::{fields_of, line_error};
use crate::session::result::{CopyFormat, CopySource, ResultSink};
use crate::session::run::Plan;
use crate::types::text::from_text;
use crate::types::{Environment, Modifier, Type, Value};

/// A field of a line: its text; none is NULL.
pub(super) type CopyField = Option<String>;

/// A column that is copied: its name, type and modifier.
type CopyColumn = (String, Type, Modifier);

impl Connection {
    pub(super) fn copy(&mut self, copy: &Copy, text: &str, sink: &mut dyn ResultSink) -> Result<()> {
        if copy.file.is_some() {
            let message = "COPY from and to files of the server is not supported";
            return Err(SqlError::unsupported(message)
                .with_hint("Use COPY FROM STDIN or COPY TO STDOUT, or \\copy of the shell."));
        }
        let options = CopyOptions::of(copy)?;
        match copy.direction {
            CopyDirection::To => self.copy_to(copy, &options, text, sink),
            CopyDirection::From => self.copy_from_client(copy, &options, text, sink),
        }
    }

    fn copy_to(
        &mut self,
        copy: &Copy,
        options: &CopyOptions,
        text: &str,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let query = match &copy.source {
            Source::Query(query) => query.clone(),
            Source::Table { name, columns } => Box::new(self.copied_table(name, columns)?),
        };
        let query = Statement::Query(query);
        let count = self.with_plan(&mut |connection, is_empty| {
            let plan = connection.plan(&query, text, &[])?;
            match options.format {
                CopyFormat::Binary => connection.copy_binary_to(&plan, is_empty, sink),
                _ => connection.copy_lines_to(&plan, options, is_empty, sink),
            }
        })?;
        sink.copy_done()?;
        self.rows_of_statement += count;
        sink.complete(&format!("COPY {count}"))
    }

    /// The query that COPY … TO of a table reads: the columns named, or all that are not generated.
    fn copied_table(&self, name: &ObjectName, columns: &[Name]) -> Result<Query> {
        let table = match self.find_relation(name)? {
            Relation::Table(table) if table.stored_query.is_none() => table,
            // The system's catalogs are views here.
            Relation::View(view) if view.schema != "pg_catalog" && view.schema != "information_schema" => {
                return Err(not_copied("view", name));
            }
            Relation::Table(_) => return Err(not_copied("materialized view", name)),
            Relation::Sequence(_) => {
                let message = format!("cannot copy from sequence \"{}\"", name.last());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            Relation::View(_) | Relation::Index { .. } => return Ok(all_of(name.clone(), columns)),
        };
        let is_generated = |column: &&Column| matches!(column.origin, ColumnOrigin::Generated(_));
        if let Some(column) = table
            .visible()
            .iter()
            .filter(is_generated)
            .find(|column| columns.iter().any(|name| name.text == column.name))
        {
            return Err(generated_column(column));
        }
        let has_generated = table.visible().iter().any(|column| is_generated(&column));
        if columns.is_empty() && has_generated {
            let kept = table.visible().iter().filter(|column| !is_generated(column));
            let names: Vec<Name> =
                kept.map(|column| Name { text: column.name.clone(), at: name.at() }).collect();
            return Ok(all_of(name.clone(), &names));
        }
        Ok(all_of(name.clone(), columns))
    }

    fn copy_lines_to(
        &mut self,
        plan: &Plan,
        options: &CopyOptions,
        is_empty: &mut bool,
        sink: &mut dyn ResultSink,
    ) -> Result<u64> {
        let mut line = String::new();
        let mut header = String::new();
        if options.header != Header::No {
            let names: Vec<CopyField> = plan.fields.iter().map(|field| Some(field.name.clone())).collect();
            write::line(&names, options, &|_| false, &mut header);
        }
        let mut begin = |sink: &mut dyn ResultSink| -> Result<()> {
            if std::mem::take(is_empty) {
                sink.copy_out(options.format, plan.fields.len())?;
                if options.header != Header::No {
                    sink.copy_data(header.as_bytes())?;
                }
            }
            Ok(())
        };
        let printing = self.environment.printing();
        let forced: Vec<bool> = plan.fields.iter().map(|field| options.quotes_always(&field.name)).collect();
        let types: Vec<Type> = plan.fields.iter().map(|field| field.ty).collect();
        let mut fields: Vec<CopyField> = Vec::with_capacity(types.len());
        let count = self.run_plan(plan, &[], &mut |row| {
            begin(sink)?;
            fields.clear();
            for (value, &ty) in row.iter().zip(&types) {
                let text = if value.is_null() {
                    None
                } else {
                    Some(crate::types::text::to_text(&*printing, ty, value)?)
                };
                fields.push(text);
            }
            line.clear();
            write::line(&fields, options, &|position| forced[position], &mut line);
            sink.copy_data(line.as_bytes())
        })?;
        begin(sink)?;
        Ok(count)
    }

    fn copy_from_client(
        &mut self,
        copy: &Copy,
        options: &CopyOptions,
        text: &str,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let Source::Table { name, columns } = &copy.source else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "COPY FROM needs a table"));
        };
        let (insert, fields, runs_once) = self.insert_for(name, columns, copy.filter.as_ref(), text)?;
        let source = sink.copy_in(options.format, fields.len())?;
        let mut rows = match options.format {
            CopyFormat::Binary => self.binary_rows(source, name.last(), &fields)?,
            _ => self.line_rows(source, name.last(), &fields, options)?,
        };
        let first_line = if options.header == Header::No { 1 } else { 2 };
        let lines = Some((name.last(), first_line));
        let (mut insert, mut runs_once) = (insert, runs_once);
        let mut is_first = true;
        let count = self.with_plan(&mut |connection, _| {
            if !std::mem::take(&mut is_first) {
                // The lines are read already.
                let (now, now_fields, once) =
                    connection.insert_for(name, columns, copy.filter.as_ref(), text)?;
                if now_fields != fields {
                    return Err(heddledb::Error::Conflict.into());
                }
                (insert, runs_once) = (now, once);
            }
            connection.run_each(&insert, &mut rows, runs_once, lines)
        })?;
        self.rows_of_statement += count;
        sink.complete(&format!("COPY {count}"))
    }

    /// Reads all rows of a COPY in text or CSV.
    fn line_rows(
        &mut self,
        source: &mut dyn CopySource,
        table: &str,
        fields: &[CopyColumn],
        options: &CopyOptions,
    ) -> Result<KeptRows> {
        let is_csv = options.format == CopyFormat::Csv;
        let mut lines = if is_csv { Lines::of_csv(&options.dialect) } else { Lines::of_text() };
        let mut rows = KeptRows::new(self.environment.memory()).packed();
        let mut data = Vec::new();
        let mut unread = Unread::new(self.environment.state_memory());
        loop {
            data.clear();
            let more = source.next(&mut data)?;
            lines.push(&data);
            while let Some(line) = lines.next_line(!more).map_err(line_error)? {
                if line.number == 1 && options.header != Header::No {
                    let checked = check_header(&line.text, fields, options);
                    checked.map_err(|error| {
                        Wrong { error, column: None }.on_line(table, line.number, &line.text)
                    })?;
                    continue;
                }
                let row = self.copied_row(&line.text, fields, options);
                rows.push(&row.map_err(|wrong| wrong.on_line(table, line.number, &line.text))?)?;
            }
            unread.hold(lines.pending())?;
            self.environment_check()?;
            if !more {
                return Ok(rows);
            }
        }
    }

    /// The INSERT that stores one line, with a parameter for each field, if it meets the WHERE clause of the text; the
    /// fields' names and types; and whether it runs nothing but checks: no trigger, and no default that could have to be
    /// evaluated again.
    pub(crate) fn insert_for(
        &mut self,
        table: &crate::parse::syntax::ObjectName,
        columns: &[Name],
        filter: Option<&Expr>,
        text: &str,
    ) -> Result<(Arc<Plan>, Vec<CopyColumn>, bool)> {
        let found = match self.find_relation(table)? {
            crate::catalog::Relation::Table(found) if found.stored_query.is_none() => found,
            other => {
                let message = format!("cannot copy to {} \"{}\"", other.kind(), table.last());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        let mut fields = Vec::new();
        for column in found.visible() {
            let named = columns.iter().any(|name| name.text == column.name);
            let generated = matches!(column.origin, ColumnOrigin::Generated(_));
            if named && generated {
                return Err(generated_column(column));
            }
            if named || (columns.is_empty() && !generated) {
                fields.push((column.name.clone(), column.ty, column.modifier));
            }
        }
        if !columns.is_empty() {
            let mut ordered = Vec::with_capacity(columns.len());
            for name in columns {
                let field = fields.iter().find(|(known, ..)| *known == name.text).cloned();
                ordered.push(field.ok_or_else(|| {
                    let message = format!("column \"{}\" of relation \"{table}\" does not exist", name.text);
                    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                })?);
            }
            fields = ordered;
        }
        let is_given = |column: &Column| fields.iter().any(|(name, ..)| *name == column.name);
        let has_default = |column: &&Column| {
            matches!(column.origin, ColumnOrigin::Default(_) | ColumnOrigin::Identity { .. })
        };
        let runs_once = filter.is_none()
            && self.environment.catalog.triggers_of(found.oid).is_empty()
            && found.columns.iter().filter(has_default).all(is_given);
        let parameter =
            |number: usize| Expr { kind: ExprKind::Parameter(number as u32 + 1), at: 0, height: 1 };
        let row = (0..fields.len()).map(parameter).collect();
        let names: Vec<Name> = fields.iter().map(|(name, ..)| Name { text: name.clone(), at: 0 }).collect();
        let values = Query::plain(QueryBodySyntax::Values(vec![row]), 0);
        let source = match filter {
            Some(filter) => filtered(values, table.last(), &names, filter),
            None => values,
        };
        let insert = Insert {
            with: None,
            table: table.clone(),
            alias: None,
            columns: names.into_iter().map(|name| InsertColumn { name, part: None }).collect(),
            overriding: Some(true),
            source: Some(Box::new(source)),
            on_conflict: None,
            returning: Vec::new(),
        };
        let types: Vec<Option<Type>> = fields.iter().map(|(_, ty, _)| Some(*ty)).collect();
        let plan = self.plan(&Statement::Insert(Box::new(insert)), text, &types)?;
        Ok((plan, fields, runs_once))
    }

    fn copied_row(
        &mut self,
        line: &str,
        columns: &[CopyColumn],
        options: &CopyOptions,
    ) -> std::result::Result<Vec<Value>, Wrong> {
        let fields = fields_of(line, options)?;
        let bad = |message: String| Wrong::from(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message));
        let missing = columns.get(fields.len()).map(|(name, ..)| name);
        if fields.len() > columns.len() {
            return Err(bad("extra data after last expected column".to_string()));
        }
        let mut row = Vec::with_capacity(fields.len());
        for ((field, quoted), (name, ty, modifier)) in fields.into_iter().zip(columns) {
            let field = options.null_or_text(field, quoted, name);
            row.push(match field {
                None => Value::Null,
                Some(text) => from_text(&self.environment, *ty, *modifier, &text)
                    .and_then(|value| crate::types::cast::apply_modifier(*ty, *modifier, value, false))
                    .map_err(|error| Wrong { error, column: Some((name.clone(), text.to_string())) })?,
            });
        }
        // Only now: an error in a field that is there comes first.
        match missing {
            Some(missing) => Err(bad(format!("missing data for column \"{missing}\""))),
            None => Ok(row),
        }
    }
}

/// Compares the first line with the columns' names, if that was asked for.
fn check_header(line: &str, columns: &[CopyColumn], options: &CopyOptions) -> Result<()> {
    if options.header != Header::Match {
        return Ok(());
    }
    let bad = |message: String| Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message));
    let found = fields_of(line, options)?;
    if found.len() != columns.len() {
        let message =
            format!("wrong number of fields in header line: got {}, expected {}", found.len(), columns.len());
        return bad(message);
    }
    for (number, ((field, quoted), (name, ..))) in found.into_iter().zip(columns).enumerate() {
        let number = number + 1;
        match options.null_or_text(field, quoted, name) {
            Some(field) if field == *name => {}
            Some(field) => {
                return bad(format!(
                    "column name mismatch in header line field {number}: got \"{field}\", expected \"{name}\""
                ));
            }
            None => {
                let null = &options.dialect.null;
                return bad(format!(
                    "column name mismatch in header line field {number}: got null value (\"{null}\"), expected \"{name}\""
                ));
            }
        }
    }
    Ok(())
}

fn generated_column(column: &Column) -> SqlError {
    let message = format!("column \"{}\" is a generated column", column.name);
    SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
        .with_detail("Generated columns cannot be used in COPY.")
}

fn not_copied(kind: &str, name: &ObjectName) -> SqlError {
    let message = format!("cannot copy from {kind} \"{}\"", name.last());
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint("Try the COPY (SELECT ...) TO variant.")
}

/// The memory of data that is no whole row yet: a client may send a row that never ends.
struct Unread {
    memory: Memory,
    /// The most there was so far.
    bytes: usize,
}

impl Unread {
    fn new(memory: Memory) -> Unread {
        Unread { memory, bytes: 0 }
    }

    /// Charges this many bytes to the statement's memory.
    ///
    /// # Errors
    /// 53200: they are more than all statements may use.
    fn hold(&mut self, bytes: usize) -> Result<()> {
        self.memory.charge(bytes.saturating_sub(self.bytes))?;
        self.bytes = self.bytes.max(bytes);
        Ok(())
    }
}

/// The error in a line, and the column that has it, with its text.
struct Wrong {
    error: SqlError,
    column: Option<(String, String)>,
}

impl From<SqlError> for Wrong {
    fn from(error: SqlError) -> Wrong {
        Wrong { error, column: None }
    }
}

impl Wrong {
    /// The error with the line and the column that it is about, in the words of PostgreSQL.
    fn on_line(self, table: &str, number: u64, line: &str) -> SqlError {
        let place = match &self.column {
            Some((column, text)) => format!("line {number}, column {column}: \"{}\"", shown(text)),
            None => format!("line {number}: \"{}\"", shown(line)),
        };
        self.error.with_context(format!("COPY {table}, {place}"))
    }
}

/// The number of bytes of a line or a field that are shown.
const SHOWN_BYTES: usize = 100;

/// A text, cut as PostgreSQL cuts it.
fn shown(text: &str) -> String {
    if text.len() <= SHOWN_BYTES {
        return text.to_string();
    }
    let end = (0..=SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

/// `SELECT * FROM (values) AS table (columns) WHERE filter`.
fn filtered(values: Query, table: &str, columns: &[Name], filter: &Expr) -> Query {
    let mut select = Select::empty(0);
    select.targets = vec![SelectItem::All(0)];
    let alias = Alias { name: Name { text: table.to_string(), at: 0 }, columns: columns.to_vec() };
    select.from =
        vec![TableRef::Query { query: Box::new(values), alias: Some(alias), lateral: false, at: 0 }];
    select.filter = Some(filter.clone());
    Query::plain(QueryBodySyntax::Select(Box::new(select)), 0)
}

/// `SELECT columns FROM table`.
fn all_of(name: crate::parse::syntax::ObjectName, columns: &[Name]) -> Query {
    let mut select = Select::empty(0);
    select.targets = if columns.is_empty() {
        vec![SelectItem::All(0)]
    } else {
        let column = |name: &Name| SelectItem::Expr {
            expr: Expr { kind: ExprKind::Column(vec![name.clone()]), at: name.at, height: 1 },
            alias: None,
        };
        columns.iter().map(column).collect()
    };
    select.from = vec![TableRef::Table { name, alias: None }];
    Query::plain(QueryBodySyntax::Select(Box::new(select)), 0)
}
