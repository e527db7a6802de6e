//! Actions whose keys and bodies get the call's arguments as a struct or a tuple.
//!
//! Invariants: an [`ActionWith`] is a notation only, and becomes an [`Action`]: one closure is executed, into
//! which the reading of the arguments is compiled.

use std::marker::PhantomData;

use crate::composite::Parameters;
use crate::error::{Error, Result};
use crate::procedure::context::{ActionContext, KeyBuilder, Values};
use crate::procedure::definition::{Action, ProcedureDefinition};
use crate::types::DataType;

/// Gives the names and types of a procedure's parameters.
pub(crate) type ParameterList = fn() -> Result<Vec<(String, DataType)>>;

/// An action that still needs its body, and whose arguments are a `P`: see [`Action::with`].
#[must_use = "it is an action once it has a body"]
pub struct ActionWith<P> {
    action: Action,
    parameters: PhantomData<fn() -> P>,
}

impl Action {
    /// Passes the call's arguments to the key and the body as a struct with `#[derive(Composite)]`, or as a
    /// tuple. The procedure's parameters are then those of the struct or tuple; all its actions that have
    /// parameters must have the same ones.
    ///
    /// ```
    /// # use heddledb::{Action, DataType, Database, ProcedureDefinition, TableDefinition, row};
    /// # let db = Database::in_memory()?;
    /// # let counters = db.create_table(
    /// #     TableDefinition::new("counter").column("id", DataType::Int64).column("n", DataType::Int64).primary_key(["id"]),
    /// # )?;
    /// # db.run(|tx| tx.insert(&counters, row![7, 0]))?;
    /// let count = Action::commute(&counters)
    ///     .with::<(i64, i64)>()
    ///     .key(|(id, _), key| key.push(id))
    ///     .body(|(_, by), action| action.add("n", by));
    /// let count = db.register(ProcedureDefinition::new("count").phase([count]))?;
    /// db.call(&count, (7, 2))?;
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// Repeated actions ([`each`](Self::each)) read their arguments by position: their number varies from call to call.
    pub fn with<P: Parameters>(mut self) -> ActionWith<P> {
        self.parameters = Some(P::parameters);
        ActionWith { action: self, parameters: PhantomData }
    }
}

impl<P: Parameters + 'static> ActionWith<P> {
    /// Same as [`Action::key`].
    pub fn key(
        mut self,
        key: impl Fn(P::Ref<'_>, &mut KeyBuilder<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.action = self.action.key(move |args, builder| key(args.to::<P>()?, builder));
        self
    }

    /// Same as [`Action::key_from`].
    pub fn key_from(
        mut self,
        key: impl Fn(P::Ref<'_>, &Values, &mut KeyBuilder<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.action =
            self.action.key_from(move |args, values, builder| key(args.to::<P>()?, values, builder));
        self
    }

    /// Same as [`Action::body`].
    #[must_use]
    pub fn body(
        self,
        body: impl Fn(P::Ref<'_>, &ActionContext<'_, '_>) -> Result<()> + Send + Sync + 'static,
    ) -> Action {
        self.action.body(move |action| body(action.args().to::<P>()?, action))
    }
}

impl ProcedureDefinition {
    /// Gives the procedure the parameters that its actions have by [`Action::with`], unless it has declared some.
    ///
    /// # Errors
    /// [`Error::InvalidProcedure`]: they differ.
    pub(super) fn settle_parameters(&mut self) -> Result<()> {
        let lists: Vec<_> = self.phases.iter().flatten().filter_map(|action| action.parameters).collect();
        for list in lists {
            let list = list()?;
            if self.parameters.is_empty() {
                self.parameters = list;
            } else if self.parameters != list {
                return Err(Error::InvalidProcedure {
                    procedure: self.name.clone(),
                    detail: format!(
                        "its parameters are {}, and those of an action are {}; give all of its actions the same",
                        shown(&self.parameters),
                        shown(&list)
                    ),
                });
            }
        }
        Ok(())
    }
}

fn shown(parameters: &[(String, DataType)]) -> String {
    let parameters: Vec<_> = parameters.iter().map(|(name, of)| format!("{name} {of}")).collect();
    format!("({})", parameters.join(", "))
}
