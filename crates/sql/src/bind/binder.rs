//! The binder's state: the catalog, the parameters, and the scopes of the enclosing queries.
//!
//! Invariants: the innermost scope is the last; a [`RelationId`] is given once; a parameter's type, once known, stays.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::bind::hypothetical::CountBefore;
use crate::bind::literals::LiteralUse;
use crate::bind::name_sites::NameSites;
use crate::bind::privileges::Required;
use crate::bind::scope::{Clause, Entry};
use crate::bind::stars::Stars;
use crate::bind::tree::{
    BoundAggregate, BoundColumn, BoundExpr, BoundRelation, BoundWindow, CteId, RelationId,
};
use crate::bind::variables::Variables;
use crate::catalog::{Catalog, Relation, Routine, no_relation};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{At, ObjectName};
use crate::parse::{TextEdit, character_position};
use crate::types::{Environment, Type};

/// The parts of a session that a binder needs.
#[derive(Clone, Copy)]
pub(crate) struct BindContext<'a> {
    /// The objects that names may mean.
    pub catalog: &'a Catalog,
    /// The schemas in which names without one are looked up; temporary objects' first.
    pub path: &'a [String],
    /// The statement's text, for positions in messages.
    pub text: &'a str,
}

/// A binder in the midst of a statement.
pub(crate) struct Binder<'a> {
    pub context: BindContext<'a>,
    /// The schemas in which names without one are looked up: the session's, or those of the view being expanded.
    pub path: Vec<String>,
    /// The services for reading literals, and for expressions that depend on the session's settings.
    pub environment: &'a mut dyn Environment,
    /// The types of the parameters, as far as they are known.
    pub parameters: Vec<Option<Type>>,
    /// True if a number above the known ones is a new parameter. (Not in a PREPARE's EXECUTE, defaults, checks.)
    pub new_parameters: bool,
    pub scopes: Vec<Scope>,
    next_relation: u32,
    next_cte: u32,
    /// Number of times each common table expression is named.
    pub cte_references: HashMap<CteId, usize>,
    /// The uses of common table expressions: the one whose query names it, or none, and the one that is named.
    pub cte_uses: Vec<(Option<CteId>, CteId)>,
    /// The query of WITH that is being bound.
    pub defining: Option<CteId>,
    /// The names of views that are being expanded, so that none contains itself.
    pub views: Vec<u32>,
    /// True if an object is being defined: the names in its texts mean what they mean to the session.
    pub defines: bool,
    /// True if the text was stored with the schemas of users' functions: a name without one means a built-in function
    /// that accepts the arguments, whatever was created later.
    pub settled: bool,
    /// True if the statement is internal: its names need no USAGE of schemas.
    pub is_own: bool,
    /// The calls of routines and their positions in the text, if requested.
    pub called: Option<Vec<(At, Arc<Routine>)>>,
    /// Text edits around the arguments of these calls, so that they keep their routines whatever others are created.
    pub casts: Vec<TextEdit>,
    /// The literals of the text with their meanings, if requested.
    pub literals: Option<Vec<LiteralUse>>,
    /// True while a catalog text is bound, in which positions mean nothing to the client.
    pub foreign_text: bool,
    /// The variables of the routine whose body the statement is in.
    pub variables: Option<Variables<'a>>,
    /// The owner of the view that is being expanded, whose privileges count there.
    pub checked_as: Option<u32>,
    /// The privileges that the statement needs.
    pub required: Vec<Required>,
    /// The places around, outermost first, into which a recursive reference may not reach, as messages call them.
    pub places: Vec<&'static str>,
    /// The stars of the text, if they are to be written out.
    pub stars: Option<Stars>,
    /// The functions in FROM whose rows are those of a table: the table and the relation.
    pub rows_of: Vec<(u32, RelationId)>,
    /// The positions at which the text names the renamed object, if requested.
    pub sites: Option<NameSites>,
}

/// A common table expression, as names see it.
#[derive(Clone, Debug)]
pub(crate) struct VisibleCte {
    pub id: CteId,
    pub name: String,
    pub columns: Vec<BoundColumn>,
    /// The part of WITH that is being bound, which decides whether its rows may be read here.
    pub state: CteState,
    /// Number of last columns that are seen by SEARCH and CYCLE only.
    pub hidden: usize,
    /// Number of enclosing places, at its definition, that no recursion may reach into.
    pub places: usize,
}

/// The part of WITH that is being bound, which decides whether a common table expression may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CteState {
    Whole,
    /// The query is in its non-recursive term, where it may not be named.
    Initial,
    /// The query is in its recursive term, where it may be named once.
    Recursive,
    /// The query is in its own definition, which is no UNION: it may not be named.
    Formless,
    /// The query is in its own definition, which writes: it may not be named.
    Writing,
    /// The query is in the definition of an earlier one of its WITH.
    Later,
    /// A statement that writes without RETURNING.
    Silent,
}

/// One level of queries.
pub(crate) struct Scope {
    /// The query's id.
    pub id: RelationId,
    /// The relations and joins whose columns may be named.
    pub entries: Vec<Entry>,
    /// True if the entries are visible: not from a subquery in FROM without LATERAL.
    pub visible: bool,
    /// The relations that belong to this query.
    pub relations: Vec<BoundRelation>,
    /// The ids of those, and of the targets of statements that write.
    pub owned: Vec<RelationId>,
    /// The clause that is being bound.
    pub clause: Clause,
    /// Aggregates that were met.
    pub aggregates: Vec<BoundAggregate>,
    /// True while the arguments of one of them are being bound.
    pub in_aggregate: bool,
    /// True while direct arguments of WITHIN GROUP are being bound, whose subqueries may name grouped columns only.
    pub in_direct_arguments: bool,
    /// Window calls that were met.
    pub windows: Vec<BoundWindow>,
    pub in_window: bool,
    /// The WINDOW clause.
    pub named_windows: HashMap<String, crate::parse::syntax::WindowDefinition>,
    /// Common table expressions that may be named from here on.
    pub ctes: Vec<VisibleCte>,
    /// Columns of this query that its subqueries name in its targets and HAVING: they must be grouped.
    pub outer_columns: Vec<(RelationId, usize, At)>,
    /// The positions at which columns were first named, for messages about grouping.
    pub column_positions: HashMap<(RelationId, usize), At>,
    /// The arguments of GROUPING calls: until the grouping is known, a call is the number of its entry here.
    pub groupings: Vec<(Vec<BoundExpr>, At)>,
    /// The direct arguments of aggregates WITHIN GROUP: they must be grouped.
    pub direct_arguments: Vec<(BoundExpr, At)>,
    /// Direct arguments of aggregates of this query that are in its subqueries.
    pub outer_direct_arguments: Vec<BoundExpr>,
    /// The counts by which hypothetical-set aggregates are computed.
    pub counts_before: Vec<CountBefore>,
    /// True if a set-returning function was found.
    pub set_returning: bool,
    /// The expression being bound that allows no set-returning functions: CASE or COALESCE.
    pub refuses_sets: Option<&'static str>,
    /// The view that the statement writes, if it writes one.
    pub written: Option<std::rc::Rc<crate::bind::view::WrittenView>>,
    /// The system columns of the table that an INSERT writes, in its RETURNING.
    pub system_columns: Vec<(&'static str, BoundExpr)>,
}

impl Scope {
    pub fn new(id: RelationId) -> Scope {
        Scope {
            id,
            entries: Vec::new(),
            visible: true,
            relations: Vec::new(),
            owned: Vec::new(),
            clause: Clause::Other,
            aggregates: Vec::new(),
            in_aggregate: false,
            in_direct_arguments: false,
            windows: Vec::new(),
            in_window: false,
            named_windows: HashMap::new(),
            ctes: Vec::new(),
            outer_columns: Vec::new(),
            column_positions: HashMap::new(),
            groupings: Vec::new(),
            direct_arguments: Vec::new(),
            outer_direct_arguments: Vec::new(),
            counts_before: Vec::new(),
            set_returning: false,
            refuses_sets: None,
            written: None,
            system_columns: Vec::new(),
        }
    }
}

impl<'a> Binder<'a> {
    pub fn new(
        context: BindContext<'a>,
        environment: &'a mut dyn Environment,
        parameters: &[Option<Type>],
    ) -> Self {
        Binder {
            context,
            path: context.path.to_vec(),
            environment,
            parameters: parameters.to_vec(),
            new_parameters: true,
            scopes: Vec::new(),
            next_relation: 0,
            next_cte: 0,
            cte_references: HashMap::new(),
            cte_uses: Vec::new(),
            defining: None,
            views: Vec::new(),
            defines: false,
            settled: false,
            is_own: false,
            called: None,
            casts: Vec::new(),
            literals: None,
            foreign_text: false,
            variables: None,
            checked_as: None,
            required: Vec::new(),
            places: Vec::new(),
            stars: None,
            rows_of: Vec::new(),
            sites: None,
        }
    }

    pub fn new_relation(&mut self) -> RelationId {
        self.next_relation += 1;
        RelationId(self.next_relation - 1)
    }

    pub fn new_cte(&mut self) -> CteId {
        self.next_cte += 1;
        CteId(self.next_cte - 1)
    }

    /// An error at a position of the statement's text.
    pub fn error(&self, at: At, state: SqlState, message: impl Into<String>) -> SqlError {
        self.at(SqlError::new(state, message), at)
    }

    /// The error with its position, if the text is the client's.
    pub fn at(&self, error: SqlError, at: At) -> SqlError {
        if self.foreign_text { error } else { error.at(character_position(self.context.text, at)) }
    }

    pub fn unsupported(&self, at: At, what: &str) -> SqlError {
        self.error(at, SqlState::FEATURE_NOT_SUPPORTED, what)
    }

    /// Opens a level of queries.
    pub fn enter(&mut self) -> RelationId {
        let id = self.new_relation();
        self.scopes.push(Scope::new(id));
        id
    }

    /// The innermost level.
    pub fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.enter();
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// Closes the innermost level.
    pub fn leave(&mut self) -> Scope {
        self.scopes.pop().unwrap_or_else(|| Scope::new(RelationId(u32::MAX)))
    }

    /// Binds under another clause, so that messages name it.
    pub fn in_clause<T>(&mut self, clause: Clause, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = std::mem::replace(&mut self.scope().clause, clause);
        let result = bind(self);
        self.scope().clause = outer;
        result
    }

    /// The relation that a name means.
    pub fn relation(&self, name: &ObjectName) -> Result<&'a Relation> {
        self.check_named_schema(name)?;
        let found = self.context.catalog.find(name.schema(), name.last(), &self.path);
        found.ok_or_else(|| self.at(no_relation(&name.to_string()), name.at()))
    }

    /// The common table expression of this name, and whether it is visible.
    pub fn cte(&self, name: &str) -> Option<VisibleCte> {
        self.scopes
            .iter()
            .rev()
            .flat_map(|scope| scope.ctes.iter().rev())
            .find(|cte| cte.name == name)
            .cloned()
    }
}
