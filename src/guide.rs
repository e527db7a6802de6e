//! A guide to HeddleDB in Rust programs.
//!
//! # First steps
//!
//! A database is a directory, or memory; a table is a struct; a transaction is a closure.
//!
//! ```
//! use heddledb::{Database, Table};
//!
//! #[derive(Debug, PartialEq, Table)]
//! struct Item {
//!     #[table(key)]
//!     id: i64,
//!     name: String,
//!     #[table(check = "stock >= 0")]
//!     stock: i64,
//! }
//!
//! let db = Database::in_memory()?; // or Database::open("shop", Options::default())?
//! let items = db.table_of::<Item>()?;
//! db.run(|tx| tx.insert(&items, &Item { id: 7, name: "pen".into(), stock: 3 }))?;
//! db.run(|tx| tx.add(&items, 7, "stock", -1))?;
//! assert_eq!(db.run(|tx| tx.get(&items, 7))?.map(|item| item.stock), Some(2));
//! # Ok::<(), heddledb::Error>(())
//! ```
//!
//! Tables whose columns are known at run time only have a [`TableDefinition`], and rows with getters
//! ([`Row`]); both kinds mix: a [`TableOf`] is a [`Table`](struct@crate::Table).
//!
//! Complete programs are in `examples/`: a shop, a bank, counters, a leaderboard, presence, a job queue, a search index kept
//! current by a change feed.
//!
//! # Modeling
//!
//! *Make contended changes commutative.* [`Tx::add`], [`Tx::max`], [`Tx::min`], [`Tx::multiply`],
//! [`Tx::ordered_put`] and [`Tx::top_k_insert`] return nothing, so they do not conflict with each other. A
//! stock that is read, compared and written conflicts with every other buyer;
//! `tx.add(&items, id, "stock", -1)` with a check `stock >= 0` does not, and still sells exactly what there is. A
//! balance, a counter, the latest heartbeat, the best scores: all of them fit.
//!
//! *Keep one row for one thing.* A row that counts the rows of another table makes every insert change the
//! same row. Count by a scan in a snapshot, or by additions.
//!
//! *Route by what belongs together.* Under the protocol `partitioned`, rows with equal routing columns
//! (`#[table(routing(shop))]`) belong to one thread: choose the column in which most transactions agree.
//!
//! *Index the columns that you search by.* `#[table(index)]`, `#[table(index(by_day(day, shop)))]`:
//! [`Tx::scan_index`] reads a range of it, in its order.
//!
//! *Enforce references.* `#[table(foreign_key = "item")]` refuses a row whose item is not there, and the deletion of an item that has rows. Other
//! actions, or several columns: `db.open_table(Order::definition().foreign_key(..))?.rows_of::<Order>()`, with the trait
//! [`TableRow`](crate::TableRow) in scope ([`TableDefinition::foreign_key`]). `#[table(references = "item")]` is knowledge for the scheduler only.
//!
//! *Number rows by a sequence.* `#[table(identity)]` numbers a column; [`Database::open_sequence`] gives numbers for anything else.
//!
//! # Transactions and retries
//!
//! All transactions are serializable. A closure is retried after a conflict with a concurrent change, so it
//! may be executed several times: only its last execution has effects *in the database*; effects outside of
//! it (a counter in the program, an e-mail) happen each time. Collect such effects, and do them after
//! [`Database::run`] has returned.
//!
//! Pass errors of the engine on with `?`: [`Error::Conflict`](crate::Error::Conflict) is how a retry begins. To fail with an error type of your
//! own use [`Database::try_run`]; it leaves no trace.
//!
//! *Rows end with the transaction.* A [`Row`] and the texts that it gives borrow from the transaction: copy out what you keep. A struct
//! owns its fields, and so does [`OwnedRow`](crate::OwnedRow), which snapshots give.
//!
//! ```
//! # use heddledb::{DataType, Database, TableDefinition, row};
//! # let db = Database::in_memory()?;
//! # let items = db.create_table(TableDefinition::new("item").column("id", DataType::Int64).column("name", DataType::Text)
//! #     .primary_key(["id"]))?;
//! # db.run(|tx| tx.insert(&items, row![7, "pen"]))?;
//! let name: Option<String> = db.run(|tx| match tx.get(&items, 7)? {
//!     Some(item) => Ok(Some(item.text("name")?.to_string())),
//!     None => Ok(None),
//! })?;
//! # assert_eq!(name.as_deref(), Some("pen"));
//! # Ok::<(), heddledb::Error>(())
//! ```
//!
//! The forms of a transaction, and their purposes:
//!
//! | form | for |
//! | --- | --- |
//! | [`Database::run`], [`Database::try_run`] | nearly everything |
//! | [`Database::transaction`] | a deadline, a cancellation, a report of attempts and waits |
//! | [`Database::run_async`] | async programs: no thread waits for the disk |
//! | [`Database::read`], [`Database::snapshot`] | reports of any length: they run once, beside all transactions |
//! | [`Database::session`] | transactions that wait for a person or a network in their middle; queues of reserved rows |
//! | [`Database::register`] and [`Database::call`], [`Database::worker`] | the highest throughput: what a call touches is declared, so that it is found ahead |
//!
//! *Procedures* declare the rows that they touch: phases of [`Action`](crate::Action)s, each with a table, a
//! key and a body. Their parameters are the fields of a struct with `#[derive(Composite)]`, or a tuple
//! ([`Composite`](crate::Composite) has a whole example); what a later phase needs of an earlier one is set
//! as a value of any type ([`ActionContext::set_any`](crate::ActionContext::set_any)).
//! [`Database::procedure`] finds a procedure by its name.
//!
//! ```
//! # use heddledb::{Action, Composite, Database, ProcedureDefinition, Table};
//! # #[derive(Table)]
//! # struct Item { #[table(key)] id: i64, stock: i64 }
//! # let db = Database::in_memory()?;
//! # let items = db.table_of::<Item>()?;
//! # db.run(|tx| tx.insert(&items, &Item { id: 7, stock: 5 }))?;
//! #[derive(Composite)]
//! struct Buy {
//!     item: i64,
//!     quantity: u32,
//! }
//!
//! let take = Action::commute(&items)
//!     .with::<Buy>()
//!     .key(|buy, key| key.push(buy.item))
//!     .body(|buy, action| action.add("stock", -i64::from(buy.quantity)));
//! let buy = db.register(ProcedureDefinition::new("buy").phase([take]))?;
//! db.call(&buy, Buy { item: 7, quantity: 2 })?;
//! # assert_eq!(db.run(|tx| tx.get(&items, 7))?.map(|item| item.stock), Some(3));
//! # Ok::<(), heddledb::Error>(())
//! ```
//!
//! # Protocols
//!
//! `auto`, the default, chooses for single columns and rows how transactions are isolated
//! ([`Database::choices`] says what it has chosen, and why). A program is the same under the fixed ones, which
//! [`Options::protocol`](crate::Options::protocol) and [`Database::set_protocol`] put in force. `serial`: short
//! transactions on the same few rows, or one processor. `locking`: long bodies that collide. `partitioned`:
//! procedures whose rows agree in one column, on many processors.
//!
//! # Durability
//!
//! With [`Durability::Group`](crate::Durability), the default, a result is returned once everything that it
//! wrote *and read* is on disk; while it is being written, the next transactions run. `Async` does not wait:
//! a crash loses the last moments, never the middle of anything. `None` writes no log. After a power failure
//! [`Database::open`] recovers automatically; [`Database::recovery`] says what it found.
//!
//! # Change feeds
//!
//! A cache or a search index beside the database is a copy. [`Database::watch`] keeps it current: it returns
//! the committed changes of a table in commit order, read from the log, so that they cost commits nothing.
//! Copy a snapshot, and continue behind its epoch:
//!
//! ```
//! # use std::collections::HashMap;
//! # use heddledb::{Change, DataType, Database, Options, Range, TableDefinition, row};
//! # let directory = tempfile::tempdir().unwrap();
//! # let db = Database::open(directory.path(), Options::default())?;
//! # let items = db.create_table(TableDefinition::new("item").column("id", DataType::Int64).column("name", DataType::Text)
//! #     .primary_key(["id"]))?;
//! # db.run(|tx| tx.insert(&items, row![1, "pen"]))?;
//! let (snapshot, mut copy) = (db.snapshot()?, HashMap::new());
//! for item in snapshot.scan(&items, Range::all())? {
//!     let values = item?.to_values();
//!     copy.insert(i64::try_from(&values[0])?, values);
//! }
//! let mut feed = db.watch(&items, snapshot.epoch())?;
//! # db.run(|tx| { tx.insert(&items, row![2, "ink"])?; tx.update(&items, 1, heddledb::set! { name: "pencil" }) })?;
//! while let Some(batch) = feed.try_next()? { // or feed.next()?, which waits
//!     for change in &batch {
//!         let id = change.key().map(|key| i64::try_from(&key[0])).transpose()?.unwrap_or_default();
//!         match change {
//!             Change::Insert { row, .. } => _ = copy.insert(id, row.to_values()),
//!             Change::Update { columns, .. } => columns.apply_to(copy.get_mut(&id).expect("it was inserted"))?,
//!             Change::Delete { .. } => _ = copy.remove(&id),
//!             Change::AddColumn { value, .. } => copy.values_mut().for_each(|row| row.push(value.clone())),
//!             _ => copy.clear(), // emptied, rewritten or dropped
//!         }
//!     }
//! }
//! # assert_eq!((copy.len(), &copy[&1][1]), (2, &heddledb::Value::from("pencil")));
//! # Ok::<(), heddledb::Error>(())
//! ```
//!
//! After each batch the copy equals the table at the end of an epoch. An update contains the columns that
//! have changed, neither the other columns nor the old values: keep the row, or read it. A copy of structs is
//! made and kept by `row.to()` and [`columns.apply_to_row`](crate::ChangedColumns::apply_to_row). Keep
//! [`Feed::epoch`](crate::Feed::epoch) with the copy: it continues there, also after a restart, as long as
//! the log reaches back: checkpoints shorten it. A [named feed](Database::create_feed) keeps the log for its
//! reader, up to a limit in bytes; beyond it the reader begins again with a snapshot, and no transaction
//! waits.
//!
//! # Operations
//!
//! [`Database::backup`] copies a database while it runs; [`Database::check`] compares indexes with tables; [`Database::statistics`] counts.
//! Checkpoints shorten recovery and the log ([`CheckpointOptions`](crate::CheckpointOptions)). [`Database::change_table`] changes columns and indexes while
//! transactions run; handles follow. The tool `heddle` does the same from a shell.
//!
//! # Tuning
//!
//! Measure first: [`TransactionReport`](crate::TransactionReport) has the retries of one body,
//! [`Database::statistics`] those of all. Many retries: make the write an operation, or reserve the row
//! ([`Tx::get_for_update`] in a session), or choose another protocol. No retries, but waits: the disk bounds
//! it; more transactions at once share each flush. Column handles ([`Table::column`](crate::Table::column))
//! and structs save the look-up of a name.

#[cfg(doc)]
use crate::{Database, Row, TableDefinition, TableOf, Tx};
