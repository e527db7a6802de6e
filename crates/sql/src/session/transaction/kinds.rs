//! The kinds of statements: those that run inside of transactions, and those that change the schema.

use crate::parse::syntax::Statement;

impl Statement {
    /// Returns true if the statement runs inside the implicit block of a query string. Statements that open or end
    /// blocks, or that only read or set session state, do not.
    pub(in crate::session) fn runs_in_transactions(&self) -> bool {
        matches!(
            self,
            Statement::Query(_)
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Merge(_)
                | Statement::Call(_)
                | Statement::Do(_)
                | Statement::Execute { .. }
                | Statement::Copy(_)
        ) || self.changes_schema()
    }

    /// Returns true if the statement changes the schema.
    pub(crate) fn changes_schema(&self) -> bool {
        match self {
            Statement::CreateIndex(create) => !create.concurrently,
            Statement::CreateTable(_)
            | Statement::CreateTableAs(_)
            | Statement::AlterTable(_)
            | Statement::CreateView(_)
            | Statement::CreateSequence(_)
            | Statement::AlterSequence(_)
            | Statement::CreateSchema { .. }
            | Statement::CreateEnum { .. }
            | Statement::CreateComposite { .. }
            | Statement::AlterType { .. }
            | Statement::CreateDomain(_)
            | Statement::AlterDomain(_)
            | Statement::SetSchema { .. }
            | Statement::Extension(_)
            | Statement::CreateRoutine(_)
            | Statement::AlterRoutine(_)
            | Statement::DropRoutines(_)
            | Statement::CreateTrigger(_)
            | Statement::ChangeTrigger(_)
            | Statement::Drop(_)
            | Statement::Rename { .. }
            | Statement::Comment(_)
            | Statement::Role(_)
            | Statement::Privilege(_)
            | Statement::Refresh(_)
            | Statement::Truncate { .. } => true,
            _ => false,
        }
    }
}
