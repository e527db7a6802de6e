//! COPY into a table that the same transaction has created or emptied: rows go at once into the table, and all of them come with the
//! commit. Whatever refuses a row, at the limit of memory too, ends in an error that leaves nothing. Under every protocol.

use heddle_sql::{Connection, Sql, SqlState};
use heddledb::{Database, Durability, Options, ProtocolKind};

const ROWS: usize = 20_000;
const LIMIT: u64 = 8 << 20;

/// On disk, and what the directory goes with.
fn on_disk(protocol: ProtocolKind) -> (tempfile::TempDir, Database, Connection) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options::default().protocol(protocol).memory(|memory| memory.limit(LIMIT));
    let db = Database::open(directory.path().join("db"), options).expect("opened");
    let connection = Sql::new(&db).expect("SQL").connect(Default::default()).expect("a connection");
    (directory, db, connection)
}

fn lines(rows: impl IntoIterator<Item = usize>) -> Vec<u8> {
    rows.into_iter().flat_map(|id| format!("{id}\t{}\n", "x".repeat(92)).into_bytes()).collect()
}

fn count(connection: &mut Connection) -> Option<String> {
    let results = connection.query("select count(*) from t").expect("a count");
    connection.text_rows(&results[0]).expect("rows")[0][0].clone()
}

#[test]
fn all_rows_come_with_the_commit_and_none_after_an_error() {
    for &protocol in ProtocolKind::ALL {
        let (_directory, db, mut connection) = on_disk(protocol);
        connection
            .query("create table t (id bigint primary key, v text); insert into t values (-1, 'old')")
            .expect("made");
        let once_more = || lines((0..ROWS).chain([3]));
        let too_many = || lines(0..ROWS * 10);
        for (data, state) in [(once_more(), "23505"), (b"1\tx\n2\n".to_vec(), "22P04"), (too_many(), "53200")]
        {
            connection.query("begin; truncate t").expect("emptied");
            let error = connection.copy_from("copy t from stdin", &data).expect_err(state);
            assert_eq!(error.state().as_str(), state, "{protocol}: {error}");
            connection.query("commit").expect("it rolls back");
            assert_eq!(count(&mut connection).as_deref(), Some("1"), "{protocol}: {state}");
        }
        connection.query("begin; truncate t").expect("emptied");
        connection.copy_from("copy t from stdin", &lines(0..ROWS)).expect("copied");
        connection.query("rollback").expect("rolled back");
        assert_eq!(count(&mut connection).as_deref(), Some("1"));
        connection.query("begin; truncate t").expect("emptied");
        connection.copy_from("copy t from stdin", &lines(0..ROWS)).expect("copied");
        connection.query("savepoint s; delete from t where id < 100; rollback to s; delete from t where id = 5; commit").expect("committed");
        assert_eq!(count(&mut connection), Some((ROWS - 1).to_string()), "{protocol}");
        db.check().expect("consistent");
    }
}

#[test]
fn data_in_memory_is_read_in_pieces_that_end_anywhere() {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).expect("in memory");
    let mut connection = Sql::new(&db).expect("SQL").connect(Default::default()).expect("a connection");
    connection.query("create table t (id bigint primary key, v text)").expect("made");
    let long: Vec<u8> =
        (0..3_000).flat_map(|id| format!("{id}\t{}\n", "é\\n".repeat(id % 50)).into_bytes()).collect();
    connection.copy_from("copy t from stdin", &long).expect("copied");
    let results = connection.query("select sum(length(v)), sum(id) from t").expect("a sum");
    let expected: usize = (0..3_000).map(|id| id % 50 * 2).sum();
    assert_eq!(
        connection.text_rows(&results[0]).expect("rows"),
        [[Some(expected.to_string()), Some((0..3_000).sum::<usize>().to_string())]]
    );
    let error = connection.copy_from("copy t from stdin", b"0\tx\n").expect_err("it is there");
    assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
}
