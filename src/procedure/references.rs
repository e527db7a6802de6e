//! The references of a procedure's calls, which the scheduler counts.
//!
//! They are derived from the footprint, each key of which is a conjunction of "column = value", and from the predicates
//! that the procedure declares besides. The columns, their literal and canonical names, and their positions in a key's
//! bytes are computed once, when the procedure is registered; a call pays for hashing its values.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::procedure::definition::Action;
use crate::procedure::domain::{Schema, domain, literal};
use crate::procedure::predicate::{Predicate, Said};
use crate::protocol::footprint::Footprint;
use crate::schedule::reference::{Attribute, Collector, Form, References, Scalar, Term};
use crate::storage::definition::TableDefinition;
use crate::storage::table::TableCore;
use crate::types::key::{EncodedKey, encode_component};
use crate::types::{Args, DataType, Value};

/// The properties of a database by which references are named.
pub(crate) struct Naming<'n> {
    /// Its tables.
    pub(crate) tables: &'n [Arc<TableCore>],
    /// The column by whose value the schedule `partition` places calls.
    pub(crate) partition_key: Option<&'n str>,
    /// True if that schedule is in force, so that a key which is no column is an error.
    pub(crate) is_partitioned: bool,
}

impl Naming<'_> {
    fn table(&self, name: &str) -> Option<Arc<TableCore>> {
        self.tables.iter().find(|table| table.definition().name() == name).cloned()
    }

    /// The domains of the columns that the partition key can mean.
    fn partition_domains(&self, key: &str) -> Result<Vec<Attribute>> {
        let schema = |name: &str| self.table(name);
        let mut domains = Vec::new();
        for definition in self.tables.iter().map(|table| table.definition()) {
            for (position, column) in definition.columns().iter().enumerate() {
                if column.name == key || format!("{}.{}", definition.name(), column.name) == key {
                    domains.push(domain(definition, position, &schema).attribute);
                }
            }
        }
        if domains.is_empty() && self.is_partitioned {
            return Err(Error::InvalidOption {
                option: "partition_key",
                given: key.to_string(),
                expected: "the name of a column, such as id or table.id, of a table that is there"
                    .to_string(),
            });
        }
        Ok(domains)
    }
}

/// Bytes that a column takes in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// An integer of eight.
    Int64,
    /// An integer of four.
    Int32,
    /// A fixed number of bytes.
    Fixed(u8),
    /// Up to its end, which two bytes mark.
    Marked,
}

impl Width {
    fn of(data_type: &DataType) -> Option<Width> {
        Some(match data_type {
            DataType::Int64 => Width::Int64,
            DataType::Int32 => Width::Int32,
            DataType::Bool => Width::Fixed(1),
            DataType::Date => Width::Fixed(4),
            DataType::Float64 | DataType::Timestamp => Width::Fixed(8),
            DataType::Uuid => Width::Fixed(16),
            DataType::Decimal { precision, .. } => Width::Fixed(if *precision <= 18 { 8 } else { 16 }),
            DataType::Text | DataType::Bytes => Width::Marked,
            _ => return None,
        })
    }

    /// Takes a column's value off the beginning of a key.
    #[inline]
    fn take(self, key: &mut &[u8]) -> Option<Scalar> {
        match self {
            Width::Int64 => {
                let (bytes, rest) = key.split_first_chunk()?;
                *key = rest;
                Some(Scalar(u64::from_be_bytes(*bytes) ^ 1 << 63))
            }
            Width::Int32 => {
                let (bytes, rest) = key.split_first_chunk()?;
                *key = rest;
                Some(Scalar::of_int(i64::from((u32::from_be_bytes(*bytes) ^ 1 << 31) as i32)))
            }
            Width::Fixed(width) => {
                let (bytes, rest) = key.split_at_checked(usize::from(width))?;
                *key = rest;
                Some(Scalar::of_bytes(bytes))
            }
            Width::Marked => {
                let (bytes, rest) = key.split_at_checked(marked_length(key)?)?;
                *key = rest;
                Some(Scalar::of_bytes(bytes))
            }
        }
    }
}

/// The length of a text or byte string in a key, its end included.
fn marked_length(key: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += key.get(at..)?.iter().position(|byte| *byte == 0)? + 2;
        if key.get(at - 1)? == &0 {
            return Some(at);
        }
    }
}

/// A column with its names; the columns that make its canonical value, by their places in the conjunction.
#[derive(Debug)]
struct Named {
    literal: Attribute,
    canonical: Attribute,
    with: SmallVec<[u8; 4]>,
}

impl Named {
    /// A column of a conjunction of these columns.
    fn new(table: &TableDefinition, column: usize, conjunction: &[usize], schema: &Schema<'_>) -> Named {
        let domain = domain(table, column, schema);
        let place = |column: &usize| conjunction.iter().position(|other| other == column).map(|at| at as u8);
        let literal = literal(table, column);
        match domain.columns.iter().map(place).collect::<Option<_>>() {
            Some(with) => Named { literal, canonical: domain.attribute, with },
            // The rest of the value is not said here: it is the column's own.
            None => Named { literal, canonical: literal, with: place(&column).into_iter().collect() },
        }
    }

    /// Returns true if its canonical value is its own.
    fn stands_alone(&self) -> bool {
        self.with.len() <= 1
    }

    #[inline]
    fn collect(&self, canonical: bool, own: Term, all: &[Term], collector: &mut Collector<'_>) {
        if !canonical {
            return collector.condition(self.literal, own);
        }
        if self.stands_alone() {
            return collector.condition(self.canonical, own);
        }
        let value = |place: &u8| match all.get(usize::from(*place)) {
            Some(Term::Equal(value)) => Some(*value),
            _ => None,
        };
        match self.with.iter().map(value).collect::<Option<SmallVec<[Scalar; 4]>>>() {
            Some(values) => collector.composite(self.canonical, values.into_iter()),
            None => collector.condition(self.literal, own),
        }
    }
}

/// The columns of an action's key.
#[derive(Debug)]
struct KeyNames(Box<[(Width, Named)]>);

impl KeyNames {
    fn new(table: &TableDefinition, schema: &Schema<'_>) -> KeyNames {
        let key = table.key();
        let column = |&position: &usize| {
            let width = Width::of(&table.columns()[position].data_type)?;
            Some((width, Named::new(table, position, key, schema)))
        };
        KeyNames(key.iter().map_while(column).collect())
    }

    #[inline]
    fn collect(&self, mut key: &[u8], canonical: bool, collector: &mut Collector<'_>) {
        let mut terms: SmallVec<[Term; 6]> = SmallVec::new();
        for (width, _) in &self.0 {
            let Some(value) = width.take(&mut key) else { break };
            terms.push(Term::Equal(value));
        }
        for ((_, named), own) in self.0.iter().zip(&terms) {
            named.collect(canonical, *own, &terms, collector);
        }
        collector.end_conjunction();
    }

    /// The value of the column at this place.
    fn value(&self, mut key: &[u8], place: usize) -> Option<Scalar> {
        self.0.iter().take(place + 1).map(|(width, _)| width.take(&mut key)).last().flatten()
    }
}

/// A column that a predicate speaks of.
struct Spoken {
    named: Named,
    data_type: DataType,
    said: Said,
}

impl Spoken {
    fn term(&self, args: &Args) -> Result<Term> {
        Ok(match &self.said {
            Said::Equals(value) | Said::Sets(value) => Term::Equal(scalar(&value(args)?, &self.data_type)?),
            Said::Between(bounds) => {
                let (low, high) = bounds(args)?;
                Term::Within(low, high)
            }
        })
    }
}

/// A value as it would be in a key.
fn scalar(value: &Value, data_type: &DataType) -> Result<Scalar> {
    match value {
        Value::Null => Ok(Scalar::NULL),
        Value::Int(value) if matches!(data_type, DataType::Int32 | DataType::Int64) => {
            Ok(Scalar::of_int(*value))
        }
        value => {
            let mut encoded = EncodedKey::new();
            encode_component(&mut encoded, value.into(), data_type, false)?;
            Ok(Scalar::of_bytes(&encoded))
        }
    }
}

/// The content of one predicate: conditions first, then assignments.
struct Statement {
    conditions: Box<[Spoken]>,
    sets: Box<[Spoken]>,
}

impl Statement {
    fn new(procedure: &str, predicate: Predicate, schema: &Schema<'_>) -> Result<Statement> {
        let table = predicate.table.definition();
        let wrong = |detail: String| Error::InvalidProcedure { procedure: procedure.to_string(), detail };
        let mut columns = Vec::new();
        for (column, said) in &predicate.said {
            let position = table.position(column)?;
            let data_type = &table.columns()[position].data_type;
            if Width::of(data_type).is_none() {
                return Err(wrong(format!(
                    "column {column:?} is of type {data_type}, which no reference can hold"
                )));
            }
            let is_integer = matches!(data_type, DataType::Int32 | DataType::Int64);
            if matches!(said, Said::Between(_)) && !is_integer {
                return Err(wrong(format!(
                    "column {column:?} is of type {data_type}; intervals are of integers"
                )));
            }
            columns.push(position);
        }
        let is_set = |(_, said): &(String, Said)| matches!(said, Said::Sets(_));
        let together: Vec<usize> = predicate
            .said
            .iter()
            .zip(&columns)
            .filter(|(said, _)| !is_set(said))
            .map(|(_, at)| *at)
            .collect();
        let (mut conditions, mut sets) = (Vec::new(), Vec::new());
        for ((name, said), position) in predicate.said.into_iter().zip(columns) {
            let data_type = table.position(&name).map(|at| table.columns()[at].data_type.clone())?;
            match said {
                Said::Sets(_) => {
                    let named = Named::new(table, position, &[position], schema);
                    sets.push(Spoken { named, data_type, said });
                }
                _ => {
                    let named = Named::new(table, position, &together, schema);
                    conditions.push(Spoken { named, data_type, said });
                }
            }
        }
        Ok(Statement { conditions: conditions.into(), sets: sets.into() })
    }

    fn collect(&self, args: &Args, canonical: bool, collector: &mut Collector<'_>) -> Result<()> {
        let terms =
            self.conditions.iter().map(|one| one.term(args)).collect::<Result<SmallVec<[Term; 6]>>>()?;
        for (spoken, own) in self.conditions.iter().zip(&terms) {
            spoken.named.collect(canonical, *own, &terms, collector);
        }
        collector.end_conjunction();
        for spoken in &self.sets {
            let own = spoken.term(args)?;
            spoken.named.collect(canonical, own, &[own], collector);
            collector.end_conjunction();
        }
        Ok(())
    }
}

/// The position of a call's partition key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartitionPlace {
    /// A key's component: that of this action, at this place.
    Key { action: usize, place: usize },
    /// A predicate's condition, at this place.
    Condition { statement: usize, place: usize },
}

/// The source of a procedure's references: its actions' keys and its predicates.
pub(super) struct ReferencePlan {
    /// The names of each action's key, in order.
    keys: Box<[KeyNames]>,
    statements: Box<[Statement]>,
    partition: Option<PartitionPlace>,
}

impl ReferencePlan {
    /// Makes the plan for these actions and predicates.
    ///
    /// # Errors
    /// A predicate names a column that there is not, or one that cannot be spoken of; so does the partition key.
    pub(super) fn new<'a>(
        procedure: &str,
        actions: impl Iterator<Item = &'a Action>,
        predicates: Vec<Predicate>,
        naming: &Naming<'_>,
    ) -> Result<ReferencePlan> {
        let schema = |name: &str| naming.table(name);
        let keys = actions.map(|action| KeyNames::new(action.table.definition(), &schema)).collect();
        let statements =
            predicates.into_iter().map(|predicate| Statement::new(procedure, predicate, &schema));
        let statements = statements.collect::<Result<_>>()?;
        let mut plan = ReferencePlan { keys, statements, partition: None };
        if let Some(key) = naming.partition_key {
            plan.partition = plan.find_partition(&naming.partition_domains(key)?);
        }
        Ok(plan)
    }

    /// The first place at which a value of one of these domains is named.
    fn find_partition(&self, domains: &[Attribute]) -> Option<PartitionPlace> {
        let fits = |named: &Named| named.stands_alone() && domains.contains(&named.canonical);
        let of_key = |(action, names): (usize, &KeyNames)| {
            let place = names.0.iter().position(|(_, named)| fits(named))?;
            Some(PartitionPlace::Key { action, place })
        };
        let of_statement = |(statement, one): (usize, &Statement)| {
            let equals = |spoken: &Spoken| matches!(spoken.said, Said::Equals(_)) && fits(&spoken.named);
            Some(PartitionPlace::Condition { statement, place: one.conditions.iter().position(equals)? })
        };
        // A predicate first: it was declared because the keys do not tell.
        self.statements
            .iter()
            .enumerate()
            .find_map(of_statement)
            .or_else(|| self.keys.iter().enumerate().find_map(of_key))
    }

    /// The value of a call's partition key, if it has one.
    ///
    /// # Errors
    /// A predicate's own.
    pub(super) fn partition_value(&self, args: &Args, footprint: &Footprint) -> Result<Option<Scalar>> {
        match self.partition {
            None => Ok(None),
            Some(PartitionPlace::Key { action, place }) => {
                let of_action = numbered(footprint, self.keys.len()).find(|(number, _)| *number == action);
                Ok(of_action.and_then(|(_, key)| self.keys[action].value(key, place)))
            }
            Some(PartitionPlace::Condition { statement, place }) => {
                match self.statements[statement].conditions[place].term(args)? {
                    Term::Equal(value) => Ok(Some(value)),
                    Term::Within(..) => Ok(None),
                }
            }
        }
    }

    /// Collects a call's references.
    ///
    /// # Errors
    /// A predicate's own.
    pub(super) fn collect(
        &self,
        args: &Args,
        footprint: &Footprint,
        form: Form,
        into: &mut References,
    ) -> Result<()> {
        into.clear();
        let mut collector = Collector::new(form, into);
        for (action, key) in numbered(footprint, self.keys.len()) {
            self.keys[action].collect(key, form.canonical, &mut collector);
        }
        self.statements
            .iter()
            .try_for_each(|statement| statement.collect(args, form.canonical, &mut collector))
    }
}

/// Each key of a footprint with the number of its action.
fn numbered(footprint: &Footprint, actions: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let repeats = !footprint.instances.is_empty();
    let number = move |place: usize| match footprint.instances.get(place) {
        Some(instance) if repeats => instance.action as usize,
        _ => place,
    };
    let keys = footprint.references.iter().enumerate();
    keys.map(move |(place, reference)| (number(place), &*reference.key)).filter(move |(at, _)| *at < actions)
}

#[cfg(test)]
mod tests;
