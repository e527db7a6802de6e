//! A race for keys: all threads insert the same keys at the same time, each only where it finds none.

use std::sync::{Arc, Barrier};
use std::thread;

use heddledb::{Error, PrimaryIndex, Table, key};

use super::super::Subject;
use super::super::model::{Model, Row};
use super::super::perform::{insert, make_table};

const THREADS: i64 = 4;
const KEYS: i64 = 150;

/// A thread that finds no row and inserts one never gets the error that there is one: either the look or the insert
/// would be of a state that never was. And of each key exactly one insert reports success.
pub fn for_keys(subject: &Subject) {
    for index in [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both] {
        let db = subject.database();
        let _mover = subject.disturb(&db);
        let table = make_table(&db, index, &Model::default());
        let start = Arc::new(Barrier::new(THREADS as usize));
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (db, table, start) = (db.clone(), table.clone(), start.clone());
                // All of them, whatever comes of each: the others wait for this thread at every key.
                thread::spawn(move || -> Vec<Result<i64, Error>> {
                    (0..KEYS).map(|key| inserts(&db, &table, &start, number, key)).collect()
                })
            })
            .collect();
        let ended = threads.into_iter().flat_map(|thread| thread.join().expect("no panic"));
        let total: Result<i64, Error> = ended.sum();
        assert_eq!(total, Ok(KEYS), "{} {index:?}", subject.name);
    }
}

/// Inserts a key where there is none; 1 if it has.
fn inserts(
    db: &heddledb::Database,
    table: &Table,
    start: &Barrier,
    number: i64,
    key: i64,
) -> Result<i64, Error> {
    start.wait();
    db.run(|tx| {
        if tx.get(table, key![key])?.is_some() {
            return Ok(0);
        }
        insert(tx, table, key, &Row { n: number, ..Row::default() }).map(|()| 1)
    })
}
