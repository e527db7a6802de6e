//! Functions that return rows: in FROM, beside each other, and in target lists.
//!
//! # Invariants
//! - Functions beside each other advance together; one that has ended gives NULLs until the longest has.
//! - A function in FROM that sees nothing of the rows for which its node is executed repeatedly is called once in the statement.

use std::rc::Rc;

use crate::error::{Result, SqlError};
use crate::functions::definition::RowsOf;
use crate::functions::{FunctionContext, FunctionKind, Rows};
use crate::plan::node::{FunctionItem, FunctionsNode, ProjectItem, SetCall};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::{Operator, Running};
use crate::types::{Type, Value};

/// Starts a function for a row; none if it is strict and an argument is NULL.
fn start<'e>(call: &'e SetCall, run: &mut Run<'e>, row: &[Value]) -> Result<Option<Box<dyn Rows>>> {
    let FunctionKind::Set(code) = call.function.kind else {
        return Err(SqlError::internal(format!("{} does not return rows", call.function.name)));
    };
    let arguments = call.arguments.iter().map(|argument| run.evaluate(argument, row));
    let arguments = arguments.collect::<Result<Vec<_>>>()?;
    if crate::bind::routines::is_call(call.function) {
        let access = run.access();
        let rows = run.environment.routine_rows(arguments[0].oid(), &arguments[1..], access)?;
        return Ok(Some(Box::new(RowsOf(rows.into_iter().map(Ok)))));
    }
    if call.function.is_strict && arguments.iter().any(Value::is_null) {
        return Ok(None);
    }
    let mut context = FunctionContext {
        environment: run.environment,
        argument_types: &call.types,
        result_type: call.result,
    };
    code(&mut context, &arguments).map(Some)
}

/// All rows of a function that is called once, however often its node runs.
fn kept_rows<'e>(item: &'e FunctionItem, key: (usize, usize), run: &mut Run<'e>) -> Result<Rc<Vec<Value>>> {
    if let Some(kept) = run.kept_function(key) {
        return Ok(kept);
    }
    let mut values = Vec::new();
    let mut held = Held::default();
    match item {
        FunctionItem::Scalar { value, .. } => values.push(run.evaluate(value, &[])?),
        FunctionItem::Set { call, .. } => {
            let mut rows = start(call, run, &[])?;
            while let Some(rows) = &mut rows
                && let Some(value) = rows.next()?
            {
                held.charge(&mut run.memory, row_bytes(std::slice::from_ref(&value)))?;
                values.push(value);
                run.check_interrupt()?;
            }
        }
    }
    Ok(run.keep_function(key, values, held))
}

/// One function's rows.
enum Source {
    Rows(Box<dyn Rows>),
    /// Rows that are kept, and the number of the next one.
    Kept(Rc<Vec<Value>>, usize),
    Once(Value),
    Ended,
}

impl Source {
    fn next(&mut self) -> Result<Option<Value>> {
        let next = match std::mem::replace(self, Source::Ended) {
            Source::Once(value) => Some(value),
            Source::Ended => None,
            Source::Kept(rows, at) => {
                let next = rows.get(at).cloned();
                *self = Source::Kept(rows, at + 1);
                next
            }
            Source::Rows(mut rows) => {
                let next = rows.next()?;
                if next.is_some() {
                    *self = Source::Rows(rows);
                }
                next
            }
        };
        Ok(next)
    }
}

/// Functions in FROM.
pub(crate) struct FunctionRows<'e> {
    node: &'e FunctionsNode,
    /// The node's number in the plan.
    id: usize,
    width: usize,
    sources: Option<Vec<Source>>,
    given: i64,
}

impl<'e> FunctionRows<'e> {
    pub(crate) fn new(node: &'e FunctionsNode, id: usize, width: usize) -> FunctionRows<'e> {
        FunctionRows { node, id, width, sources: None, given: 0 }
    }

    fn start(&self, run: &mut Run<'e>) -> Result<Vec<Source>> {
        let source = |(number, item): (usize, &'e FunctionItem)| match item {
            item if item.keeps() => Ok(Source::Kept(kept_rows(item, (self.id, number), run)?, 0)),
            FunctionItem::Set { call, .. } => Ok(start(call, run, &[])?.map_or(Source::Ended, Source::Rows)),
            FunctionItem::Scalar { value, .. } => run.evaluate(value, &[]).map(Source::Once),
        };
        self.node.calls.iter().enumerate().map(source).collect()
    }
}

/// Puts a function's value into its columns. `result`: the type of the only column.
fn spread(value: Value, result: Type, columns: &mut [Value]) {
    match value {
        Value::Record(record) if columns.len() > 1 || result != Type::Record => {
            columns.iter_mut().zip(record.values.iter()).for_each(|(column, value)| *column = value.clone());
        }
        value => {
            if let Some(column) = columns.first_mut() {
                *column = value;
            }
        }
    }
}

impl<'e> Operator<'e> for FunctionRows<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if self.sources.is_none() {
            self.sources = Some(self.start(run)?);
        }
        run.check_interrupt()?;
        let Some(sources) = &mut self.sources else { return Ok(None) };
        let mut batch = Batch::new(self.width);
        while !batch.is_full() {
            let row = batch.push_nulls();
            let (mut at, mut any) = (0, false);
            for (source, item) in sources.iter_mut().zip(&self.node.calls) {
                let (FunctionItem::Set { columns, .. } | FunctionItem::Scalar { columns, .. }) = item;
                if let Some(value) = source.next()? {
                    any = true;
                    let result = match item {
                        FunctionItem::Set { call, .. } => call.check_row(&value).map(|()| call.result)?,
                        FunctionItem::Scalar { .. } => Type::Record,
                    };
                    spread(value, result, &mut row[at..at + columns]);
                }
                at += columns;
            }
            if !any {
                batch.pop();
                break;
            }
            self.given += 1;
            if self.node.ordinality {
                row[at] = Value::Int8(self.given);
            }
        }
        Ok((!batch.is_empty()).then_some(batch))
    }
}

/// Rows of expressions of which some return sets.
pub(crate) struct ProjectSets<'e> {
    input: Running<'e>,
    items: &'e [ProjectItem],
    current: Option<(Batch, usize, Vec<Source>)>,
}

impl<'e> ProjectSets<'e> {
    pub(crate) fn new(input: Running<'e>, items: &'e [ProjectItem]) -> ProjectSets<'e> {
        ProjectSets { input, items, current: None }
    }

    fn sources(&self, run: &mut Run<'e>, row: &[Value]) -> Result<Vec<Source>> {
        let source = |item: &'e ProjectItem| match item {
            ProjectItem::Set(call) => Ok(start(call, run, row)?.map_or(Source::Ended, Source::Rows)),
            ProjectItem::Value(value) => run.evaluate(value, row).map(Source::Once),
        };
        self.items.iter().map(source).collect()
    }

    /// One row of the current input row; false if it has no more.
    fn step(&self, sources: &mut [Source], result: &mut Batch) -> Result<bool> {
        let row = result.push_nulls();
        let mut any = false;
        for ((value, item), source) in row.iter_mut().zip(self.items).zip(sources) {
            match (item, &mut *source) {
                (ProjectItem::Value(_), Source::Once(kept)) => *value = kept.clone(),
                (ProjectItem::Set(_), source) => {
                    if let Some(next) = source.next()? {
                        *value = next;
                        any = true;
                    }
                }
                _ => {}
            }
        }
        if !any {
            result.pop();
        }
        Ok(any)
    }
}

impl<'e> Operator<'e> for ProjectSets<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let mut result = Batch::new(self.items.len());
        loop {
            let (batch, position, mut sources) = match self.current.take() {
                Some(current) => current,
                None => match self.input.next(run)? {
                    Some(batch) => {
                        let sources = self.sources(run, batch.row(0))?;
                        (batch, 0, sources)
                    }
                    None => return Ok((!result.is_empty()).then_some(result)),
                },
            };
            while self.step(&mut sources, &mut result)? {
                if result.is_full() {
                    self.current = Some((batch, position, sources));
                    return Ok(Some(result));
                }
            }
            run.check_interrupt()?;
            if position + 1 < batch.len() {
                let sources = self.sources(run, batch.row(position + 1))?;
                self.current = Some((batch, position + 1, sources));
            }
        }
    }
}
