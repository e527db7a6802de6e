//! Comparisons of columns with values of other types: moments with dates, with and without a zone.

use super::super::{memory, rows, run};
use super::plan;

const COLUMNS: &str = "(id int primary key, at timestamp, zoned timestamptz, day date, score float8)";

/// Rows two hours apart, around the days on which Berlin's clocks change, and with NULLs and infinite moments.
fn tables(connection: &mut heddle_sql::Connection) {
    run(connection, "set timezone = 'Europe/Berlin'");
    let rows = "select n, m, m::timestamptz, m::date, n * 0.5 from
         (select n, case when n % 50 <> 0 then timestamp '2024-03-28' + (n % 800) * interval '143 minutes' end m
          from generate_series(1, 1000) n) x
         union all select 3001, 'infinity', 'infinity', 'infinity', 'NaN'
         union all select 3002, '-infinity', '-infinity', '-infinity', '-infinity'";
    for table in ["m", "plain"] {
        run(connection, &format!("create table {table} {COLUMNS}; insert into {table} {rows}"));
    }
    run(
        connection,
        "create index m_at on m (at); create index m_zoned on m (zoned); create index m_day on m (day);
         create index m_score on m (score); analyze",
    );
}

#[test]
fn values_of_other_types_bound_an_index() {
    let mut connection = memory();
    tables(&mut connection);
    for (condition, index) in [
        ("at >= date '2024-06-14'", "m_at"),
        ("at >= timestamptz '2024-06-14'", "m_at"),
        ("at = date '2024-04-04'", "m_at"),
        ("date '2024-06-14' < at", "m_at"),
        ("at between date '2024-04-04' and date '2024-04-05'", "m_at"),
        ("at > now() + interval '100 years'", "m_at"),
        ("zoned < date '2024-03-29'", "m_zoned"),
        ("zoned = timestamp '2024-04-04'", "m_zoned"),
        ("zoned > current_date + 10000", "m_zoned"),
        ("day = timestamp '2024-04-04'", "m_day"),
        ("day >= timestamptz '2024-06-14'", "m_day"),
        ("score > 495::real", "m_score"),
    ] {
        let plan = plan(&mut connection, &format!("select id from m where {condition}"));
        assert!(
            plan.contains(&format!("using {index} on m")) && plan.contains("Filter:"),
            "{condition}\n{plan}"
        );
    }
    let joined = "select m.id from plain p join m on m.at >= p.day and m.at < p.day + 1 where p.id = 77";
    let plan = plan(&mut connection, joined);
    assert!(plan.contains("Lookup: Index Scan using m_at on m"), "{plan}");
    let mut found = rows(&mut connection, joined);
    let mut expected = rows(&mut connection, &joined.replace("join m on m.", "join plain m on m."));
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert!(!found.is_empty());
}

#[test]
fn bounds_of_other_types_leave_no_row_out() {
    let mut connection = memory();
    tables(&mut connection);
    let moments = [
        "2024-03-31",
        "2024-04-01",
        "2024-06-13 12:30",
        "2024-03-31 02:30",
        "2024-03-31 03:00",
        "2024-03-31 01:59",
        "infinity",
        "-infinity",
        "5874897-12-31",
        "4713-01-01 BC",
    ];
    let mut compared = 0;
    for zone in ["Europe/Berlin", "Pacific/Apia", "UTC"] {
        run(&mut connection, &format!("set timezone = '{zone}'"));
        for column in ["at", "zoned", "day"] {
            for ty in ["date", "timestamp", "timestamptz"] {
                for moment in moments.iter().filter(|moment| ty == "date" || !moment.starts_with("5874897")) {
                    for operator in ["=", "<", "<=", ">", ">=", "<>"] {
                        let query = |table: &str| {
                            format!(
                                "select count(*), min(id), sum(id) from {table} where {column} {operator} {ty} '{moment}'"
                            )
                        };
                        let found = rows(&mut connection, &query("m"));
                        let expected = rows(&mut connection, &query("plain"));
                        assert_eq!(found, expected, "{zone}: {}", query("m"));
                        compared += usize::from(!found[0].starts_with("0 "));
                    }
                }
            }
        }
    }
    assert!(compared > 500, "{compared}");
    for operator in ["=", "<", ">="] {
        for value in ["245", "'NaN'", "'-infinity'", "0.25"] {
            let query = |table: &str| {
                format!("select count(*), sum(id) from {table} where score {operator} {value}::real")
            };
            let expected = rows(&mut connection, &query("plain"));
            assert_eq!(rows(&mut connection, &query("m")), expected, "{operator} {value}");
        }
    }
}
