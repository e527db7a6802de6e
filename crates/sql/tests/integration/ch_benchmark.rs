//! CH-benCHmark's 22 queries answer as PostgreSQL 15 does, on the same small TPC-C database.

use crate::support::oracle::{Answer, Oracle, Session};
use heddle_sql::{Connection, Sql};
use heddle_workloads::Workload;
use heddle_workloads::tpcc::{Tpcc, reports};
use heddledb::{Database, Durability, Options};

/// Two small warehouses and the tables of the queries.
fn wholesaler() -> Sql {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    let tpcc = Tpcc { warehouses: 2, items: 800, customers: 40, ..Tpcc::default() };
    tpcc.load(&db).unwrap();
    reports::load(&db).unwrap();
    Sql::new(&db).unwrap()
}

/// The rows of a query as PostgreSQL prints them.
fn rows(connection: &mut Connection, query: &str) -> Vec<Vec<Option<String>>> {
    let results = connection.query(query).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    connection.text_rows(&results[0]).unwrap()
}

/// Makes the table in PostgreSQL, with the same columns and rows.
fn copy_table(ours: &mut Connection, theirs: &mut Session, table: &str) {
    let columns = rows(
        ours,
        &format!(
            "select quote_ident(attname), format_type(atttypid, atttypmod) from pg_attribute \
             where attrelid = '{table}'::regclass and attnum > 0 order by attnum"
        ),
    );
    let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
    let columns: Vec<String> =
        columns.iter().map(|column| format!("{} {}", text(&column[0]), text(&column[1]))).collect();
    succeed(theirs, &format!("create table {table} ({})", columns.join(", ")));
    let literal = |cell: &Option<String>| match cell {
        Some(text) => format!("'{}'", text.replace('\'', "''")),
        None => "null".to_owned(),
    };
    for part in rows(ours, &format!("select * from {table}")).chunks(500) {
        let values: Vec<String> = part
            .iter()
            .map(|row| format!("({})", row.iter().map(literal).collect::<Vec<_>>().join(", ")))
            .collect();
        succeed(theirs, &format!("insert into {table} values {}", values.join(", ")));
    }
}

fn succeed(theirs: &mut Session, statement: &str) {
    let Answer { sqlstate, .. } = theirs.run(statement);
    assert_eq!(sqlstate, "00000", "{statement:.200}");
}

#[test]
fn the_queries_answer_as_on_postgres() {
    let Some(oracle) = Oracle::start() else { return };
    let sql = wholesaler();
    let mut ours = sql.connect(Default::default()).unwrap();
    let mut theirs = oracle.connect();
    ours.query("set timezone = 'UTC'").unwrap();
    // So that what the queries look for is there.
    for (third, data) in
        ["'co' || i_data || 'a'", "'PR' || i_data || 'BB'", "i_data || 'b'"].iter().enumerate()
    {
        ours.query(&format!("update item set i_data = {data} where i_id % 3 = {third}")).unwrap();
    }
    for change in [
        "delete from orders where o_c_id < 9",
        "update customer set c_balance = 10 - c_id",
        "update stock set s_order_cnt = s_i_id % 5",
        "update order_line set ol_quantity = (ol_o_id + ol_number) % 9 + 1, \
         ol_delivery_d = ol_delivery_d + interval '1 day' * ol_number",
    ] {
        ours.query(change).unwrap();
    }
    for table in reports::TABLES {
        copy_table(&mut ours, &mut theirs, table);
    }
    succeed(&mut theirs, "analyze");
    let mut without_rows = Vec::new();
    for query in reports::queries() {
        let found = rows(&mut ours, query.text);
        let expected = theirs.run(query.text);
        assert_eq!(expected.sqlstate, "00000", "query {}", query.number);
        assert_eq!(found, expected.rows, "query {}: {}", query.number, query.title);
        if !found.iter().flatten().any(Option::is_some) {
            without_rows.push(query.number);
        }
    }
    assert!(without_rows.is_empty(), "queries that found nothing: {without_rows:?}");
}

#[test]
fn reports_in_read_only_sessions_are_taken_on_snapshots() {
    let sql = wholesaler();
    let mut reader = sql.connect(Default::default()).unwrap();
    let mut writer = sql.connect(Default::default()).unwrap();
    reader.query("set default_transaction_read_only = on").unwrap();
    let count = reader.prepared("select count(*), min(d_next_o_id), max(d_next_o_id) from district").unwrap();
    let mut seen = Vec::new();
    reader
        .run(&count, &[], &mut |row| {
            // The query's rows are given while its snapshot is open; a writer is not in its way, nor it in the writer's.
            writer.query("update district set d_next_o_id = d_next_o_id + 1").map(drop)?;
            seen.push(row.to_vec());
            Ok(())
        })
        .unwrap();
    assert_eq!(format!("{:?}", seen[0]), "[Int8(20), Int8(41), Int8(41)]");
    assert_eq!(rows(&mut reader, "select min(d_next_o_id) from district")[0][0].as_deref(), Some("42"));
}
