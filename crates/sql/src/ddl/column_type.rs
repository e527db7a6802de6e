//! ALTER TABLE … ALTER COLUMN … TYPE.
//!
//! A cast is applied to each value while the engine copies the table. Any other USING expression, and each value of a domain, is
//! computed into a column that is added for it, and that then takes the place of the old one, with its keys, indexes and constraints.

use std::sync::Arc;

use heddledb::TableChange;
use parking_lot::Mutex;

use crate::bind::Clause;
use crate::bind::tree::BoundExpr;
use crate::bind::tree::walk::walk;
use crate::catalog::environment::CatalogEnvironment;
use crate::catalog::system::{index_statement, named_class};
use crate::catalog::{Column, ColumnOrigin, Index, Table, UserType};
use crate::ddl::alter_column::check_identity_type;
use crate::ddl::alter_table::without_column;
use crate::ddl::composite::check_member;
use crate::ddl::create_table::{TableDraft, check_key_column};
use crate::ddl::foreign_key::check_types;
use crate::ddl::index_expressions::indexes_expression_on;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{
    AlterAction, Expr, ExprKind, ObjectName, SequenceOption, Statement, TextExpr, TypeName,
};
use crate::parse::{qualified_name, quote_identifier};
use crate::session::Connection;
use crate::storage::{decode, encode, engine_type};
use crate::types::cast::{Cast, CastContext, is_relabel};
use crate::types::{Modifier, Type, format_type};

impl Connection {
    /// ALTER COLUMN … TYPE. Indexes whose expressions or predicates name the column are built again.
    pub(super) fn set_type(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        ty: (&TypeName, Option<&ObjectName>),
        using: Option<&TextExpr>,
        text: &str,
    ) -> Result<()> {
        self.catalog_to_read();
        let is_meant = |index: &&Index| !index.constraint && indexes_expression_on(table, index, name);
        let mut kept = Vec::new();
        for index in table.indexes.iter().filter(is_meant) {
            let comment = table.key_comments.iter().find(|(of, _)| *of == index.oid);
            let comment = comment.map(|(_, text)| text.clone());
            let statement = index_statement(self.environment(), index.oid);
            kept.extend(statement.map(|statement| (index.oid, index.name.clone(), statement, comment)));
        }
        if kept.is_empty() {
            return self.set_type_of(table, name, ty, using, text);
        }
        for (oid, ..) in &kept {
            self.drop_index(table.oid, *oid, false)?;
        }
        self.set_type_of(&self.current(table.oid)?, name, ty, using, text)?;
        for (_, index, statement, comment) in kept {
            self.catalog_to_read();
            for parsed in crate::parse::parse(&statement)? {
                if let Statement::CreateIndex(create) = &parsed.statement {
                    self.create_index(create, &statement).map_err(SqlError::without_position)?;
                }
            }
            let Some(comment) = comment else { continue };
            let current = self.current(table.oid)?;
            let oid = current.indexes.iter().find(|it| it.name == index).map(|it| it.oid);
            self.redefine(&current, |table| table.key_comments.extend(oid.map(|oid| (oid, comment))))?;
        }
        Ok(())
    }

    fn set_type_of(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        (ty, collation): (&TypeName, Option<&ObjectName>),
        using: Option<&TextExpr>,
        text: &str,
    ) -> Result<()> {
        let position = self.column_of(table, name)?;
        check_users(table, position, using.is_some())?;
        let catalog = self.current_catalog();
        self.column_users(table, position)?.refuse_type(&catalog, table, name)?;
        let old = table.columns[position].clone();
        let named = self.with_binder(text, |binder| binder.named_type(ty))?;
        self.check_type_usage(&named)?;
        check_member(&catalog, named.ty, (Type::row_of(table.oid), &table.name))?;
        let collation = self.column_collation(collation, named.ty, text)?;
        let mut new = Column {
            ty: named.ty,
            collation,
            modifier: named.modifier,
            domain: named.domain.map(|domain| domain.oid),
            ..old.clone()
        };
        self.check_keys(table, position, &new)?;
        let indexes = table.indexes.iter().flat_map(|index| &index.columns);
        for class in indexes.filter(|key| key.column == position).filter_map(|key| key.class.as_deref()) {
            named_class(class, new.ty)?;
        }
        let is_key = table.key.contains(&position)
            || table
                .indexes
                .iter()
                .any(|index| index.unique && index.columns.iter().any(|it| it.column == position));
        if is_key {
            check_key_column(&new, "key")?;
        }
        let same = engine_type(new.ty, new.modifier) == engine_type(old.ty, old.modifier)
            && is_relabel(old.ty, new.ty)
            && new.modifier.is_none();
        let cast = match using {
            None => Some(find_cast(&old, &new, false)?).filter(|_| new.domain.is_none()),
            Some(using) if self.is_cast_of(&using.expr, name, &new, text)? => {
                Some(find_cast(&old, &new, true)?)
            }
            Some(_) => None,
        };
        if !is_relabel(old.ty, new.ty) {
            new.origin = self.converted_default(table, &old, &new)?;
        }
        let mut draft = TableDraft::of(table);
        draft.columns[position] = new.clone();
        self.check_draft(&mut draft, text).map_err(SqlError::without_position)?;
        match cast {
            None => {
                let own = || quote_identifier(name);
                let value = using.map_or_else(own, |using| using.text.clone());
                self.compute_column(table, &old, &new, &value)?;
            }
            Some(cast) if !same => self.convert_column(table, old, new.clone(), cast)?,
            Some(_) => {}
        }
        let table = self.current(table.oid)?;
        self.redefine(&table, |table| {
            table.columns[position] = Column { engine: table.columns[position].engine, ..new }
        })?;
        self.validate_rows(table.oid, position, name)?;
        self.retype_identity(table.oid, position)
    }

    /// The sequence of an identity column gets the column's type.
    fn retype_identity(&mut self, table: u32, position: usize) -> Result<()> {
        let table = self.current(table)?;
        let Some(sequence) = self.identity_sequence(&table, position) else { return Ok(()) };
        let ty = table.columns[position].ty;
        if sequence.ty == ty {
            return Ok(());
        }
        let name = crate::parse::parse_type(&ty.display_name())?;
        self.change_known_sequence(&sequence, &[SequenceOption::As(name)])
    }

    /// Refuses a type that the column's identity or foreign keys do not allow.
    ///
    /// # Errors
    /// 22023, 42804.
    fn check_keys(&self, table: &Arc<Table>, position: usize, new: &Column) -> Result<()> {
        if matches!(new.origin, ColumnOrigin::Identity { .. }) {
            check_identity_type(new.ty)?;
        }
        let catalog = self.current_catalog();
        for other in catalog.tables() {
            for key in &other.foreign_keys {
                let Some(target) = catalog.table_by_oid(key.table) else { continue };
                for (&column, &reference) in key.columns.iter().zip(&key.references) {
                    let is_own = |of: &Table, at: usize| of.oid == table.oid && at == position;
                    let (left, right) = (is_own(other, column), is_own(target, reference));
                    if left || right {
                        let left = if left { new } else { &other.columns[column] };
                        let right = if right { new } else { &target.columns[reference] };
                        check_types(&key.name, left, right)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns true if an expression is a cast of the column of this name to its new type, without a domain: then no
    /// row is needed.
    fn is_cast_of(&mut self, expr: &Expr, name: &str, new: &Column, text: &str) -> Result<bool> {
        let ExprKind::Cast { operand, ty } = &expr.kind else { return Ok(false) };
        let ExprKind::Column(parts) = &operand.kind else { return Ok(false) };
        if parts.len() != 1 || parts[0].text != name {
            return Ok(false);
        }
        let named = self.with_binder(text, |binder| binder.named_type(ty))?;
        let has_domain = named.domain.is_some() || new.domain.is_some();
        Ok(!has_domain && (named.ty, named.modifier) == (new.ty, new.modifier))
    }

    /// The default of a column that gets another type: its expression keeps the type that it had.
    fn converted_default(&mut self, table: &Arc<Table>, old: &Column, new: &Column) -> Result<ColumnOrigin> {
        let ColumnOrigin::Default(text) = &old.origin else { return Ok(old.origin.clone()) };
        let catalog = self.current_catalog();
        let enum_name = |oid: u32| match catalog.user_type_by_oid(oid)? {
            UserType::Enum(ty) => Some(qualified_name(&ty.schema, &ty.name)),
            UserType::Composite(ty) => Some(qualified_name(&ty.schema, &ty.name)),
            UserType::Domain(_) => None,
        };
        self.with_binder("", |binder| {
            let target = binder.new_relation();
            let ty = binder.row_expression(table, target, text, Clause::Default)?.ty();
            let is_literal = ty == Type::Unknown;
            let ty = if is_literal { old.ty } else { ty };
            if Cast::find(ty, new.ty, new.modifier, CastContext::Assignment).is_none() {
                let message = format!(
                    "default for column \"{}\" cannot be cast automatically to type {}",
                    old.name,
                    binder.type_text(new.ty)
                );
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
            let is_null = text.eq_ignore_ascii_case("null");
            Ok(ColumnOrigin::Default(match is_literal && !is_null {
                true => format!("{text}::{}", format_type(ty, Modifier::NONE, &enum_name)),
                false => text.clone(),
            }))
        })
    }

    /// Sets a column to the values of an expression over the row.
    fn compute_column(&mut self, table: &Arc<Table>, old: &Column, new: &Column, value: &str) -> Result<()> {
        self.check_transform(table, new, value)?;
        let name = &old.name;
        let position = table.visible().len();
        let hidden = format!("#type.{}.{position}", table.oid);
        let column = Column {
            name: hidden.clone(),
            not_null: false,
            origin: ColumnOrigin::Nothing,
            comment: None,
            acl: None,
            ..new.clone()
        };
        self.add_hidden_column(table.oid, column, &format!("({value})"))?;
        let filled = self.current(table.oid)?;
        if old.not_null {
            self.refuse_nulls_in(&filled, &hidden, name)?;
        }
        self.change_engine(&filled, TableChange::new().replace_column(name.as_str(), hidden.as_str()), name)?;
        self.redefine(&filled, |table| without_column(table, position))
    }

    /// Refuses what cannot be computed for each row, or is of a type that is not assigned to the column's.
    fn check_transform(&mut self, table: &Arc<Table>, new: &Column, value: &str) -> Result<()> {
        self.with_binder("", |binder| {
            let target = binder.new_relation();
            let bound = binder.row_expression(table, target, value, Clause::Transform)?;
            let (mut has_subquery, mut has_row) = (false, false);
            walk(&bound, &mut |part| {
                has_subquery |= matches!(part, BoundExpr::Subquery(_));
                has_row |= matches!(part, BoundExpr::Row { names: Some(_), .. });
            });
            if has_subquery {
                return Err(SqlError::unsupported("cannot use subquery in transform expression"));
            }
            if has_row {
                // The row has the column that is computed, too.
                return Err(SqlError::unsupported("cannot use a whole row in transform expression"));
            }
            let ty = bound.ty();
            let is_assigned = ty == Type::Unknown
                || Cast::find(ty, new.ty, new.modifier, CastContext::Assignment).is_some();
            if is_assigned {
                return Ok(());
            }
            let message = format!(
                "result of USING clause for column \"{}\" cannot be cast automatically to type {}",
                new.name,
                binder.type_text(new.ty)
            );
            Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .with_hint("You might need to add an explicit cast."))
        })
    }

    /// Checks and foreign keys of a column must hold for its new values.
    fn validate_rows(&mut self, table: u32, position: usize, name: &str) -> Result<()> {
        let table = self.current(table)?;
        for check in table.checks.iter().filter(|check| crate::parse::names_column(&check.condition, name)) {
            self.validate_check(&table, &check.name, &check.condition)?;
        }
        let catalog = self.current_catalog();
        for other in catalog.tables() {
            let concerns = |key: &&crate::catalog::ForeignKey| {
                other.oid == table.oid && key.columns.contains(&position)
                    || key.table == table.oid && key.references.contains(&position)
            };
            for key in other.foreign_keys.iter().filter(concerns) {
                self.validate_foreign_key(other, key)?;
            }
        }
        Ok(())
    }

    /// Rewrites a column's values as those of another type.
    fn convert_column(&mut self, table: &Arc<Table>, old: Column, new: Column, cast: Cast) -> Result<()> {
        let (name, data_type) = (old.name.clone(), engine_type(new.ty, new.modifier));
        let formats = self.environment().settings.formats.clone();
        let catalog = self.environment().catalog.clone();
        let failure = Arc::new(Mutex::new(None));
        let failed = failure.clone();
        let change = TableChange::new().convert(&name, data_type, move |value| {
            let mut environment = CatalogEnvironment::new(&catalog).with_formats(formats.clone());
            let converted = decode(old.ty, old.modifier, value.as_value_ref())
                .and_then(|value| cast.apply(&mut environment, &value))
                .and_then(|value| encode(new.ty, new.modifier, &value));
            converted.map_err(|error| {
                let message = error.to_string();
                *failed.lock() = Some(error);
                heddledb::fail(message)
            })
        });
        // The engine passes on the message only.
        self.change_engine(table, change, &name).map_err(|error| failure.lock().take().unwrap_or(error))?;
        Ok(())
    }
}

/// Refuses to change the type of a column on which an index or a generated column depends.
fn check_users(table: &Table, position: usize, has_using: bool) -> Result<()> {
    let name = &table.columns[position].name;
    if let Some(index) = table.indexes.iter().find(|index| indexes_expression_on(table, index, name)) {
        let message = format!("cannot alter type of a column used by index \"{}\"", index.name);
        let hint = "Drop the index first, and create it again.";
        return Err(SqlError::unsupported(message).with_hint(hint));
    }
    for (at, column) in table.columns.iter().enumerate() {
        let ColumnOrigin::Generated(text) = &column.origin else { continue };
        if at == position && has_using {
            let message = "cannot specify USING when altering type of generated column";
            return Err(SqlError::new(SqlState::INVALID_COLUMN_DEFINITION, message)
                .with_detail(format!("Column \"{name}\" is a generated column.")));
        }
        if at != position && crate::parse::names_column(text, name) {
            return Err(SqlError::unsupported("cannot alter type of a column used by a generated column")
                .with_detail(format!("Column \"{name}\" is used by generated column \"{}\".", column.name)));
        }
    }
    Ok(())
}

fn find_cast(old: &Column, new: &Column, explicit: bool) -> Result<Cast> {
    let context = if explicit { CastContext::Explicit } else { CastContext::Assignment };
    Cast::find(old.ty, new.ty, new.modifier, context).ok_or_else(|| {
        let (name, ty) = (&old.name, new.ty.display_name());
        let message = format!("column \"{name}\" cannot be cast automatically to type {ty}");
        let hint = format!("You might need to specify \"USING {name}::{ty}\".");
        SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_hint(hint)
    })
}

/// Refuses USING over a column whose type the same statement changes before: it would see the new values.
///
/// # Errors
/// 0A000.
pub(super) fn check_changed_at_once(actions: &[AlterAction]) -> Result<()> {
    let mut changed: Vec<&str> = Vec::new();
    for action in actions {
        let AlterAction::SetType { column, using, .. } = action else { continue };
        let names = |other: &&&str| {
            using.as_ref().is_some_and(|using| crate::parse::names_column(&using.text, other))
        };
        if let Some(other) = changed.iter().find(names) {
            let message = format!("USING names column \"{other}\", whose type the same statement changes");
            return Err(
                SqlError::unsupported(message).with_hint("Change the types in statements of their own.")
            );
        }
        changed.push(&column.text);
    }
    Ok(())
}
