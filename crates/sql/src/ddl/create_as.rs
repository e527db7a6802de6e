//! CREATE TABLE … AS and SELECT … INTO.

use crate::catalog::rights::RightsKind;
use crate::catalog::{Column, ColumnOrigin, Persistence};
use crate::ddl::create_table::TableDraft;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{
    CreateTableAs, Name, ObjectName, OnCommit, PersistenceName, Query, QueryBodySyntax, Statement,
};
use crate::session::{Connection, ResultSink};
use crate::types::{Modifier, Type};

impl Connection {
    pub(crate) fn create_table_as(
        &mut self,
        create: &CreateTableAs,
        text: &str,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        if create.on_commit != OnCommit::PreserveRows {
            return Err(SqlError::unsupported("ON COMMIT DROP and ON COMMIT DELETE ROWS are not supported"));
        }
        let filled = self.in_schema_transaction(|connection| {
            let query = Statement::Query(create.query.clone());
            match connection.make_table_for(create, &query, text)? {
                Some(columns) if create.with_data => {
                    connection.fill_table(&create.name, &columns, &query, text).map(Some)
                }
                _ => Ok(None),
            }
        })?;
        match filled {
            Some(count) => sink.complete(&format!("SELECT {count}")),
            None => sink.complete("CREATE TABLE AS"),
        }
    }

    /// SELECT … INTO.
    pub(crate) fn create_table_as_into(
        &mut self,
        query: &Query,
        text: &str,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let mut query = query.clone();
        let QueryBodySyntax::Select(select) = &mut query.body else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INTO is only allowed on the first SELECT"));
        };
        let Some(name) = select.into.take() else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "SELECT without INTO"));
        };
        let create = CreateTableAs {
            name,
            persistence: PersistenceName::Permanent,
            if_not_exists: false,
            columns: Vec::new(),
            on_commit: OnCommit::PreserveRows,
            query: Box::new(query),
            with_data: true,
        };
        self.create_table_as(&create, text, sink)
    }

    /// Makes a table with the query's columns: their names. None: it exists, and that is accepted.
    pub(super) fn make_table_for(
        &mut self,
        create: &CreateTableAs,
        query: &Statement,
        text: &str,
    ) -> Result<Option<Vec<Name>>> {
        let mut catalog = self.catalog_to_change();
        let temporary = create.persistence == PersistenceName::Temporary;
        let schema = self.schema_for(&create.name, temporary)?;
        if !self.is_free(&schema, create.name.last(), create.if_not_exists)? {
            return Ok(None);
        }
        let plan = self.plan_for_columns(query, text)?;
        if create.columns.len() > plan.len() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
        }
        let persistence = match create.persistence {
            PersistenceName::Permanent => Persistence::Permanent,
            PersistenceName::Temporary => Persistence::Temporary,
            PersistenceName::Unlogged => Persistence::Unlogged,
        };
        let mut draft = TableDraft::new(catalog.new_oid(), &schema, create.name.last(), persistence);
        draft.rights = self.new_rights(RightsKind::Table, &schema);
        for (position, (name, ty, modifier)) in plan.into_iter().enumerate() {
            let name = create.columns.get(position).map_or(name, |name| name.text.clone());
            if draft.columns.iter().any(|column| column.name == name) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            draft.columns.push(Column {
                name,
                ty,
                modifier,
                not_null: false,
                origin: ColumnOrigin::Nothing,
                domain: None,
                engine: position + 1,
                comment: None,
                acl: None,
            });
        }
        let names = draft.columns.iter().map(|column| Name { text: column.name.clone(), at: 0 }).collect();
        self.make_table(draft, catalog)?;
        Ok(Some(names))
    }

    /// Names, types and modifiers of a query's columns.
    pub(crate) fn plan_for_columns(
        &mut self,
        query: &Statement,
        text: &str,
    ) -> Result<Vec<(String, Type, Modifier)>> {
        self.with_binder(text, |binder| {
            let bound = binder.data_statement(query)?;
            // Privileges are checked where the query runs.
            binder.required.clear();
            Ok(bound.columns.into_iter().map(|column| (column.name, column.ty, column.modifier)).collect())
        })
    }

    /// Inserts a query's rows.
    pub(super) fn fill_table(
        &mut self,
        name: &ObjectName,
        columns: &[Name],
        query: &Statement,
        text: &str,
    ) -> Result<u64> {
        let Statement::Query(query) = query else { return Ok(0) };
        let insert = crate::parse::syntax::Insert {
            with: None,
            table: name.clone(),
            alias: None,
            columns: columns.to_vec(),
            overriding: None,
            source: Some(query.clone()),
            on_conflict: None,
            returning: Vec::new(),
        };
        self.run_uncached(&Statement::Insert(Box::new(insert)), text)
    }
}
