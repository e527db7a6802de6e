//! The variables that statements of a body assign.
//!
//! # Invariants
//! - A variable that a statement may assign is among them, whichever way the statement takes.

use std::collections::BTreeSet;

use crate::routine::plpgsql::tree::{Fragment, Kind, Statement, Target};

pub(super) fn slots_of<'t>(targets: impl Iterator<Item = &'t Target>) -> BTreeSet<usize> {
    targets.map(|target| target.slot).collect()
}

/// The variables that statements assign; of a CALL, those that `outputs` gives.
pub(super) fn assigned(statements: &[Statement], outputs: &mut Outputs<'_>) -> BTreeSet<usize> {
    let mut slots = BTreeSet::new();
    statements.iter().for_each(|statement| assigns(&statement.kind, outputs, &mut slots));
    slots
}

/// The variables that a CALL assigns.
pub(super) type Outputs<'o> = dyn FnMut(&Fragment, &[Option<Target>]) -> BTreeSet<usize> + 'o;

fn assigns(kind: &Kind, outputs: &mut Outputs<'_>, into: &mut BTreeSet<usize>) {
    let mut every = |statements: &[Statement]| into.append(&mut assigned(statements, outputs));
    match kind {
        Kind::Block(block) => {
            every(&block.body);
            block.handlers.iter().for_each(|handler| every(&handler.body));
            into.extend(&block.declared);
        }
        Kind::If { arms, otherwise } => {
            arms.iter().for_each(|(_, body)| every(body));
            every(otherwise);
        }
        Kind::Case { operand, arms, otherwise } => {
            arms.iter().for_each(|(_, body)| every(body));
            otherwise.iter().for_each(|body| every(body));
            into.extend(operand.iter().map(|(slot, _)| *slot));
        }
        Kind::Loop { body, .. } => every(body),
        Kind::ForInteger(integer) => {
            every(&integer.body);
            into.insert(integer.slot);
        }
        Kind::ForRows { into: row, body, .. } => {
            every(body);
            into.extend(row.targets.iter().map(|target| target.slot));
        }
        Kind::ForCursor { row, body, .. } => {
            every(body);
            into.insert(*row);
        }
        Kind::Foreach { target, body, .. } => {
            every(body);
            into.insert(target.slot);
        }
        Kind::Assign { target, .. } => {
            into.insert(target.slot);
        }
        Kind::Run { into: Some(row), .. }
        | Kind::Execute { into: Some(row), .. }
        | Kind::Fetch { into: Some(row), .. } => into.extend(row.targets.iter().map(|target| target.slot)),
        Kind::Call { query, targets } => into.append(&mut outputs(query, targets)),
        Kind::Diagnostics { items, .. } => into.extend(items.iter().map(|(target, _)| target.slot)),
        _ => {}
    }
}
