//! The bodies of routines: a string, or statements of the standard's form (`RETURN …`, `BEGIN ATOMIC … END`).
//!
//! # Invariants
//! - What a name in a body of the standard's form means is settled when the routine is made: names of relations, types and
//!   users' functions have their schemas before them, so no caller's search path gives them another meaning.

use crate::catalog::Language;
use crate::catalog::store::TEMPORARY;
use crate::ddl::renamed_names::may_mean_routine;
use crate::ddl::routine::invalid;
use crate::error::Result;
use crate::parse::syntax::RoutineOptions;
use crate::parse::{Reference, qualified_name, with_names};
use crate::session::Connection;
use crate::types::Type;

impl Connection {
    /// The body and its language.
    pub(super) fn body_of(&self, options: &RoutineOptions) -> Result<(String, Language)> {
        match (&options.body, &options.statements) {
            (Some(_), Some(_)) => Err(invalid("duplicate function body specified")),
            (Some(body), None) => {
                let language = options.language.ok_or_else(|| invalid("no language specified"))?;
                Ok((body.clone(), language))
            }
            (None, Some(_)) if options.language.is_some_and(|language| language != Language::Sql) => {
                Err(invalid("inline SQL function body only valid for language SQL"))
            }
            (None, Some(statements)) => {
                let settled: Vec<String> = statements.iter().map(|text| self.settled_names(text)).collect();
                Ok((settled.join(";\n"), Language::Sql))
            }
            (None, None) => Err(invalid("no function body specified")),
        }
    }

    /// A statement whose names of relations, types and functions have the schemas that they are found in now.
    fn settled_names(&self, text: &str) -> String {
        let (catalog, path) = (self.current_catalog(), self.environment().path());
        let mut ctes = Vec::new();
        with_names(text, |kind, name| {
            ctes.extend((kind == Reference::Cte).then(|| name.last().to_string()));
            None
        });
        let is_own = |schema: &str| schema.starts_with(TEMPORARY);
        with_names(text, |kind, name| {
            if name.schema().is_some() || ctes.iter().any(|cte| cte == name.last()) {
                return None;
            }
            let schema = match kind {
                Reference::Relation => {
                    let found = catalog.find(None, name.last(), &path)?;
                    catalog.relation_name(found.oid())?.0.clone()
                }
                Reference::Function if may_mean_routine(name) => {
                    catalog.find_routines(None, name.last(), &path).first()?.schema.clone()
                }
                Reference::Type if Type::from_name(name.last()).is_none() => {
                    catalog.find_type(None, name.last(), &path)?.schema().to_string()
                }
                _ => return None,
            };
            (!is_own(&schema)).then(|| qualified_name(&schema, name.last()))
        })
    }
}
