//! LIKE in CREATE TABLE: the columns of another table, and what of it is included.

use super::draft::{HIDDEN, TableDraft};
use crate::catalog::rights::SELECT;
use crate::catalog::{Catalog, Column, ColumnOrigin, Index, IndexColumn, Relation};
use crate::ddl::keys::refuse_second_key;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{LikeClause, Timing};
use crate::session::Connection;

impl Connection {
    pub(super) fn draft_like(
        &mut self,
        like: &LikeClause,
        draft: &mut TableDraft,
        catalog: &mut Catalog,
    ) -> Result<()> {
        let Relation::Table(source) = self.find_relation(&like.table)? else {
            let message = format!("\"{}\" is not a table", like.table);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        self.check_relation(&Relation::Table(source.clone()), SELECT)?;
        let includes =
            |what: &str| like.including.iter().any(|included| included == what || included == "all");
        let first = draft.columns.len();
        for column in source.visible() {
            let origin = match &column.origin {
                ColumnOrigin::Default(text) if includes("defaults") => ColumnOrigin::Default(text.clone()),
                ColumnOrigin::Generated(text) if includes("generated") => {
                    ColumnOrigin::Generated(text.clone())
                }
                _ => ColumnOrigin::Nothing,
            };
            let comment = column.comment.clone().filter(|_| includes("comments"));
            draft.columns.push(Column { origin, comment, ..column.clone() });
            if let ColumnOrigin::Identity { always, .. } = column.origin
                && includes("identity")
            {
                let position = draft.columns.len() - 1;
                let sequence = self.owned_sequence(draft, position, column.ty, &[], catalog)?;
                draft.columns[position].origin = ColumnOrigin::Identity { always, sequence: sequence.oid };
                draft.sequences.push(sequence);
            }
        }
        if includes("constraints") {
            draft.checks.extend(source.checks.iter().cloned());
        }
        if includes("indexes") {
            if !source.key.is_empty() {
                let key = source.key.iter().map(|column| column + first).collect();
                draft.primary_key(None, key, Timing::default())?;
            }
            for index in &source.indexes {
                if index.primary {
                    refuse_second_key(&draft.name, &draft.key, &draft.indexes)?;
                    index.columns.iter().for_each(|key| draft.columns[key.column + first].not_null = true);
                }
                let hidden = source.hidden_columns(index);
                let columns = index.columns.iter().map(|it| {
                    let place = hidden.iter().position(|&column| column == it.column);
                    let column = place.map_or(it.column + first, |place| HIDDEN + draft.hidden.len() + place);
                    IndexColumn { column, ..it.clone() }
                });
                let columns = columns.collect();
                draft.hidden.extend(hidden.iter().map(|&column| source.columns[column].clone()));
                draft.indexes.push(Index { oid: 0, name: String::new(), columns, ..index.clone() });
            }
        }
        Ok(())
    }
}
