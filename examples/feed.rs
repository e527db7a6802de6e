//! A search index beside the database, kept current by a named change feed: it is filled from a snapshot, follows what is
//! committed, and goes on where it was when the database is opened again.
//!
//! ```sh
//! cargo run -p heddledb --example feed
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use heddledb::{Change, ColumnChange, Database, Feed, Options, Result, Table, TableOf, Value, set};

#[derive(Debug, PartialEq, Table)]
struct Product {
    #[table(key)]
    id: i64,
    name: String,
    price: i64,
}

/// The products that have a word in their name.
#[derive(Debug, Default)]
struct Search {
    names: HashMap<i64, String>,
    words: BTreeMap<String, BTreeSet<i64>>,
}

impl Search {
    fn put(&mut self, id: i64, name: &str) {
        self.remove(id);
        for word in name.split_whitespace() {
            self.words.entry(word.to_lowercase()).or_default().insert(id);
        }
        self.names.insert(id, name.to_string());
    }

    fn remove(&mut self, id: i64) {
        for word in self.names.remove(&id).iter().flat_map(|name| name.split_whitespace()) {
            self.words.entry(word.to_lowercase()).or_default().remove(&id);
        }
    }

    fn find(&self, word: &str) -> Vec<i64> {
        self.words.get(word).into_iter().flatten().copied().collect()
    }

    fn change(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Insert { row, .. } => self.put(row.int("id")?, row.text("name")?),
            Change::Update { key, columns } => {
                // An update contains only the columns that have changed; the price is not in the index.
                if let Some(ColumnChange::Set(Value::Text(name))) = columns.get("name") {
                    self.put(i64::try_from(key[0].as_value_ref())?, name);
                }
            }
            Change::Delete { key } => self.remove(i64::try_from(key[0].as_value_ref())?),
            // The table was emptied, rewritten or dropped; rows that it has now follow.
            _ => *self = Search::default(),
        }
        Ok(())
    }

    /// Takes everything that is durable by now.
    fn catch_up(&mut self, feed: &mut Feed) -> Result<()> {
        while let Some(batch) = feed.try_next()? {
            batch.changes().iter().try_for_each(|change| self.change(change))?;
        }
        // An index with files of its own makes them durable here, before it says that it has all this.
        feed.acknowledge(feed.epoch())
    }
}

/// Makes the feed first, so that the log is kept from there on, then copies a snapshot, and goes on behind that.
fn begin(db: &Database, products: &TableOf<Product>) -> Result<Search> {
    let mut feed = db.create_feed("search", products, 1 << 30)?;
    let (mut search, snapshot) = (Search::default(), db.snapshot()?);
    for product in snapshot.scan(products, ..)? {
        let product = product?;
        search.put(product.id, &product.name);
    }
    feed.acknowledge(snapshot.epoch())?;
    Ok(search)
}

fn product(id: i64, name: &str) -> Product {
    Product { id, name: name.to_string(), price: 100 }
}

fn run(directory: &Path) -> Result<()> {
    let db = Database::open(directory, Options::default())?;
    let products = db.table_of::<Product>()?;
    db.run(|tx| {
        tx.insert(&products, &product(1, "Blue pen"))?;
        tx.insert(&products, &product(2, "Red pen"))
    })?;
    let mut search = begin(&db, &products)?;
    assert_eq!(search.find("pen"), [1, 2]);

    db.run(|tx| {
        tx.insert(&products, &product(3, "Blue ink"))?;
        tx.update(&products, 2, set! { name: "Red pencil" })?;
        tx.add(&products, 1, "price", -10)
    })?;
    search.catch_up(&mut db.feed("search")?)?;
    assert_eq!((search.find("blue"), search.find("pen")), (vec![1, 3], vec![1]));

    // Commits without a reader of the feed wait in the log, also while the database is closed.
    db.run(|tx| tx.delete(&products, 1).map(drop))?;
    drop(products);
    db.close()?;
    let db = Database::open(directory, Options::default())?;
    search.catch_up(&mut db.feed("search")?)?;
    assert_eq!((search.find("blue"), search.find("pencil")), (vec![3], vec![2]));
    println!("blue: {:?}, pencil: {:?}", search.find("blue"), search.find("pencil"));
    db.close()
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory for temporary files");
    run(directory.path())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
