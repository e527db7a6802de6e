//! CREATE TABLE … AS and SELECT … INTO.

use crate::bind::tree::BoundColumn;
use crate::catalog::rights::RightsKind;
use crate::catalog::{Catalog, Column, ColumnOrigin};
use crate::ddl::create_table::{TableDraft, check_column_name};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{
    CreateTableAs, Name, ObjectName, OnCommit, PersistenceName, Query, QueryBodySyntax, Statement,
};
use crate::run::KeptRows;
use crate::session::{Connection, ResultSink};
use crate::types::Environment;

impl Connection {
    pub(crate) fn create_table_as(
        &mut self,
        create: &CreateTableAs,
        text: &str,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let filled = self.in_schema_transaction(|connection| {
            let query = Statement::Query(create.query.clone());
            connection.make_filled_table(create, &query, text)
        })?;
        match filled {
            Some(Some(count)) => sink.complete(&format!("SELECT {count}")),
            _ => sink.complete("CREATE TABLE AS"),
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

    /// Makes a table with the query's columns, and inserts its rows if they are wanted. Returns the number of rows;
    /// `None` if the table exists, and that is accepted.
    pub(super) fn make_filled_table(
        &mut self,
        create: &CreateTableAs,
        query: &Statement,
        text: &str,
    ) -> Result<Option<Option<u64>>> {
        let temporary = create.persistence == PersistenceName::Temporary;
        let schema = self.schema_for(&create.name, temporary)?;
        if !self.is_free(&schema, create.name.last(), create.if_not_exists)? {
            return Ok(None);
        }
        // The query first: once the transaction has written, each row that it reads is noted.
        let rows = if create.with_data { Some(self.rows_of(query, text)?) } else { None };
        let columns = self.make_table_for(create, &schema, query, text)?;
        rows.map(|mut rows| self.fill_table(&create.name, &columns, &mut rows)).transpose().map(Some)
    }

    /// Makes a table with the query's columns: their names.
    fn make_table_for(
        &mut self,
        create: &CreateTableAs,
        schema: &str,
        query: &Statement,
        text: &str,
    ) -> Result<Vec<Name>> {
        let mut catalog = self.catalog_to_change();
        let plan = self.plan_for_columns(query, text)?;
        if create.columns.len() > plan.len() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
        }
        let persistence = self.persistence(create.persistence, schema, create.on_commit)?;
        let mut draft = TableDraft::new(catalog.new_oid(), schema, create.name.last(), persistence);
        draft.rights = self.new_rights(RightsKind::Table, schema);
        for (position, column) in plan.into_iter().enumerate() {
            let name = create.columns.get(position).map_or(column.name, |name| name.text.clone());
            check_column_name(&name)?;
            if draft.columns.iter().any(|column| column.name == name) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            draft.columns.push(Column {
                name,
                ty: column.ty,
                modifier: column.modifier,
                not_null: false,
                origin: ColumnOrigin::Nothing,
                domain: None,
                engine: position + 1,
                comment: None,
                acl: None,
                collation: column.source.and_then(|source| collation_of(&catalog, source)),
                settings: Default::default(),
            });
        }
        let names = draft.columns.iter().map(|column| Name { text: column.name.clone(), at: 0 }).collect();
        self.make_table(draft, catalog)?;
        Ok(names)
    }

    /// A query's columns.
    pub(crate) fn plan_for_columns(&mut self, query: &Statement, text: &str) -> Result<Vec<BoundColumn>> {
        self.with_binder(text, |binder| {
            let bound = binder.data_statement(query)?;
            // Privileges are checked where the query runs.
            binder.required.clear();
            Ok(bound.columns)
        })
    }

    /// All rows of a query.
    fn rows_of(&mut self, query: &Statement, text: &str) -> Result<KeptRows> {
        self.with_plan(&mut |connection, _| {
            let plan = connection.plan(query, text, &[])?;
            let mut rows = KeptRows::new(connection.environment().memory()).packed();
            connection.run_plan(&plan, &[], &mut |row| rows.push(row))?;
            Ok(rows)
        })
    }

    /// Inserts rows into a table that the transaction has made.
    fn fill_table(&mut self, name: &ObjectName, columns: &[Name], rows: &mut KeptRows) -> Result<u64> {
        let (insert, ..) = self.insert_for(name, columns, None, "")?;
        self.run_each(&insert, rows, true, None)
    }
}

/// The collation of the column (from zero) of a table that a query's column is taken from.
fn collation_of(catalog: &Catalog, (table, column): (u32, usize)) -> Option<u32> {
    catalog.table_by_oid(table)?.columns.get(column)?.collation
}
