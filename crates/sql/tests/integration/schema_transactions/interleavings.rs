//! All pairs of a change of definitions and a statement, one of them or both in transaction blocks, interleaved in each way that
//! matters: what the two answer and what is left is as in one of the two serial orders.
//!
//! A side that ends with 40001, 40P01 or a lock timeout is retried when the other one has ended. By default every eleventh pair runs,
//! in each interleaving under one of the protocols, in turn; with `HEDDLE_ALL_INTERLEAVINGS` all of them.

use std::fmt::Write as _;

use heddle_sql::{Connection, Sql, SqlError, SqlState};
use heddledb::ProtocolKind;

use super::{connect, in_memory, run};

/// Statements at the beginning of each case, in a schema of its own.
const BEFORE: &str = "
    create domain dom as int;
    create type mood as enum ('sad', 'ok');
    create table par (id int primary key, n int);
    create table t (id int primary key, v int default 1, p int, check (id > 0));
    create table plain (id int primary key, v int);
    create table typed (id int primary key, d dom, m mood);
    create table fired (id int primary key, v int);
    create table kid (id int primary key, p int references par);
    create table log (what text);
    create view small as select id, v from t where v < 1000;
    create view calls as select id from plain;
    create function f(x int) returns int language sql as 'select x + 1';
    create function g(x numeric) returns text language sql as 'select ''numeric''';
    create function note() returns trigger language plpgsql as
        'begin insert into log values (''note '' || new.id); return new; end';
    create function add(i int) returns void language plpgsql as
        'begin insert into t (id) values (i); perform f(i); end';
    create trigger fires after insert on fired for each row execute function note();
    create procedure make(i int) language plpgsql as 'begin insert into log values (''make '' || f(i)); end';
    create table computed (id int primary key, c int default f(1), e int generated always as (id * 2) stored);
    grant usage on schema SCHEMA to interleaver;
    grant all on all tables in schema SCHEMA to interleaver;
    insert into par values (1, 1), (2, 2), (3, 3);
    insert into t values (1, 1, 1), (2, 2, 2);
    insert into plain values (1, 1);
    insert into typed values (1, 1, 'ok');
    insert into kid values (1, 3)";

const CHANGES: &[&str] = &[
    "alter table t add constraint k check (v >= 0)",
    "alter table t add constraint k foreign key (p) references par",
    "alter table t add constraint k foreign key (p) references par on delete cascade",
    "alter table plain add constraint k check (v >= 0)",
    "alter table plain add constraint k foreign key (v) references par",
    "alter domain dom add constraint k check (value > 0)",
    "alter domain dom set default 7",
    "alter domain dom set not null",
    "alter type mood rename value 'ok' to 'fine'",
    "create trigger k after insert or update on t for each row execute function note()",
    "create trigger k after insert or update on plain for each row execute function note()",
    "drop trigger fires on fired",
    "create or replace function f(x int) returns int language sql as 'select x + 100'",
    "create or replace function note() returns trigger language plpgsql as
        'begin insert into log values (''other'' || new.id); return new; end'",
    "create or replace function add(i int) returns void language plpgsql as
        'begin insert into t (id, v) values (i, 55); end'",
    "create or replace procedure make(i int) language plpgsql as 'begin insert into log values (''new''); end'",
    "create function g(x int) returns text language sql as 'select ''integer'''",
    "create or replace view small as select id, v from t where v < 0",
    "create or replace view calls as select id + 5 as id from plain",
    "drop view calls",
    "drop function f(int) cascade",
    "alter table t alter column v set default 9",
    "alter table t alter column v drop default",
    "alter table computed alter column c set default 4",
    "alter table t alter column v set not null",
    "alter table t add column g int generated always as (v * 2) stored",
    "alter table t add column w int not null default 3",
    "alter table plain drop column v cascade",
    "alter table plain alter column v type bigint",
    "alter table plain rename column v to w",
    "alter table plain rename to simple",
    "create unique index k on plain (v)",
    "create unique index k on t ((v % 7))",
    "create index k on t ((100 / v))",
    "alter table kid drop constraint kid_p_fkey",
    "alter table t drop constraint t_id_check",
    "truncate plain",
    "revoke insert on t from interleaver",
    "revoke select on small from interleaver",
    "revoke usage on schema SCHEMA from interleaver",
    "revoke execute on function f(int) from public",
    "drop table kid",
];

/// Statements, and whether a role without privileges of its own runs them.
const STATEMENTS: &[(bool, &str)] = &[
    (false, "insert into t (id, v, p) values (10, -1, 77) returning *"),
    (false, "insert into t (id) values (10)"),
    (false, "insert into t (id, v) values (-4, 2), (10, null)"),
    (false, "update t set v = -5, p = 99 where id = 1"),
    (false, "update t set v = 0 where id = 2"),
    (false, "insert into t (id, v) select id + 20, f(v) from t where id = 1"),
    (false, "insert into t (id, v) values (1, 8) on conflict (id) do update set v = excluded.v + 1"),
    (false, "delete from par where id = 1"),
    (false, "delete from par where id = 3"),
    (false, "update par set id = 9 where id = 2"),
    (false, "insert into plain values (5, -5)"),
    (false, "insert into plain values (6, 1)"),
    (false, "update plain set v = -v"),
    (false, "insert into typed values (10, -1, 'ok')"),
    (false, "insert into typed (id, m) values (10, 'ok')"),
    (false, "insert into typed values (10, 3::dom, 'sad') returning m, d"),
    (false, "insert into fired values (10, 1)"),
    (false, "insert into kid values (10, 44)"),
    (false, "insert into computed (id) values (10)"),
    (false, "insert into log select 'small ' || count(*) from small"),
    (false, "insert into log select 'calls ' || sum(id) from calls"),
    (false, "insert into log values (g(1)), (f(1)::text)"),
    (false, "update small set v = v - 10 where id = 1"),
    (false, "select add(10)"),
    (false, "call make(3)"),
    (false, "do 'begin update plain set v = v + f(1); insert into fired values (11, 2); end'"),
    (
        false,
        "merge into t using par on t.id = par.id when matched then update set v = f(n) when not matched then insert (id, v) values (par.id, -n)",
    ),
    (true, "insert into t (id, v) values (10, 3)"),
    (true, "insert into log select 'small ' || count(*) || f(1) from small"),
];

/// In which order the two sides do what they do: `s` and `d` are the statement and the change; `S` and `D` begin a block, `|`
/// ends that of the side that the letter before it names.
const INTERLEAVINGS: &[&str] =
    &["Ss d S|", "Sr d s S|", "Dd s D|", "Ss Dd S| D|", "Ss Dd D| S|", "Dd Ss D| S|"];

/// One side: its connection, and what it does.
struct Side {
    connection: Connection,
    text: String,
    in_block: bool,
    /// Its answer, once that is known.
    answer: Option<Result<Vec<String>, SqlState>>,
    /// True if it conflicted with another one and is to be retried.
    is_conflicting: bool,
}

impl Side {
    fn new(sql: &Sql, schema: &str, text: &str, is_role: bool) -> Side {
        let mut connection = connect(sql);
        run(&mut connection, &format!("set search_path = {schema}; set lock_timeout = '500ms'"));
        if is_role {
            run(&mut connection, "set role interleaver");
        }
        let text = text.replace("SCHEMA", schema);
        Side { connection, text, in_block: false, answer: None, is_conflicting: false }
    }

    fn begin(&mut self) {
        run(&mut self.connection, "begin");
        self.in_block = true;
    }

    fn fail(&mut self, error: &SqlError) {
        let retryable =
            [SqlState::SERIALIZATION_FAILURE, SqlState::DEADLOCK_DETECTED, SqlState::LOCK_NOT_AVAILABLE];
        match retryable.contains(&error.state()) {
            true => self.is_conflicting = true,
            false => self.answer = Some(Err(error.state())),
        }
    }

    fn is_failed(&self) -> bool {
        self.is_conflicting || matches!(self.answer, Some(Err(_)))
    }

    fn act(&mut self) {
        let text = self.text.clone();
        match answer(&mut self.connection, &text) {
            Ok(rows) => self.answer = Some(Ok(rows)),
            Err(error) => self.fail(&error),
        }
    }

    fn read(&mut self) {
        if let Err(error) = self.connection.query("select count(*) from par") {
            self.fail(&error);
        }
    }

    fn end(&mut self) {
        self.in_block = false;
        if self.is_failed() {
            run(&mut self.connection, "rollback");
        } else if let Err(error) = self.connection.query("commit") {
            self.fail(&error);
        }
    }

    /// Runs it again, alone, if it has met the other side.
    fn retry(&mut self) {
        if std::mem::take(&mut self.is_conflicting) {
            self.act();
            assert!(!self.is_conflicting, "{} conflicts with nothing", self.text);
        }
    }
}

fn answer(connection: &mut Connection, text: &str) -> Result<Vec<String>, SqlError> {
    let results = connection.query(text)?;
    let mut lines = Vec::new();
    for result in &results {
        lines.extend(connection.text_rows(result)?.into_iter().map(|row| format!("{row:?}")));
    }
    Ok(lines)
}

/// All rows of all tables and views of a schema.
fn rows_left(sql: &Sql, schema: &str) -> String {
    let mut connection = connect(sql);
    run(&mut connection, &format!("set search_path = {schema}"));
    let mut left = String::new();
    for table in ["par", "t", "plain", "simple", "typed", "fired", "kid", "computed", "log", "small", "calls"]
    {
        // Of rows that compare alike, and of what the order of two sides does not decide.
        let query = format!("select * from {table} order by 1, 2");
        let query = if ["log", "calls"].contains(&table) {
            format!("select * from {table} order by 1")
        } else {
            query
        };
        let rows = answer(&mut connection, &query).or_else(|error| match error.state() {
            SqlState::UNDEFINED_COLUMN | SqlState::INVALID_COLUMN_REFERENCE => {
                answer(&mut connection, &format!("select * from {table} order by 1"))
            }
            _ => Err(error),
        });
        let _ = writeln!(left, "{table}: {:?}", rows.map_err(|error| error.state()));
    }
    left
}

struct Outcome {
    change: Option<Result<Vec<String>, SqlState>>,
    statement: Option<Result<Vec<String>, SqlState>>,
    left: String,
}

impl Outcome {
    fn text(&self) -> String {
        format!("change: {:?}\nstatement: {:?}\n{}", self.change, self.statement, self.left)
    }
}

/// After how many cases the databases are replaced by new ones.
const CASES_PER_DATABASE: usize = 200;

/// One database of each protocol, and how many cases have run there.
struct Databases {
    databases: Vec<(ProtocolKind, Sql)>,
    cases: usize,
}

impl Databases {
    fn new() -> Databases {
        let databases = ProtocolKind::ALL.iter().map(|&protocol| {
            let sql = in_memory(protocol);
            run(&mut connect(&sql), "create role interleaver");
            (protocol, sql)
        });
        Databases { databases: databases.collect(), cases: 0 }
    }

    fn case(&mut self, database: usize, order: &str, change: &str, statement: (bool, &str)) -> Outcome {
        self.cases += 1;
        if self.cases.is_multiple_of(CASES_PER_DATABASE) {
            // The engine remembers dropped tables.
            self.databases = Databases::new().databases;
        }
        let schema = format!("case{}", self.cases);
        let sql = &self.databases[database].1;
        let mut own = connect(sql);
        run(&mut own, &format!("create schema {schema}; set search_path = {schema}"));
        run(&mut own, &format!("begin; {}; commit", BEFORE.replace("SCHEMA", &schema)));
        let mut change = Side::new(sql, &schema, change, false);
        let mut statement = Side::new(sql, &schema, statement.1, statement.0);
        let mut last = ' ';
        for step in order.chars() {
            let side = match if step == '|' { last } else { step } {
                'd' | 'D' => &mut change,
                _ => &mut statement,
            };
            match step {
                'D' | 'S' if !side.in_block => side.begin(),
                's' | 'd' if !side.is_failed() => side.act(),
                'r' => side.read(),
                '|' => side.end(),
                _ => {}
            }
            last = step;
        }
        statement.retry();
        change.retry();
        let left = rows_left(sql, &schema);
        run(&mut own, "set client_min_messages = error");
        run(&mut own, &format!("drop schema {schema} cascade"));
        Outcome { change: change.answer, statement: statement.answer, left }
    }
}

#[test]
fn pairs_of_changes_and_statements_are_serializable() {
    let all = std::env::var_os("HEDDLE_ALL_INTERLEAVINGS").is_some();
    let only = std::env::var("HEDDLE_ONLY_CHANGE").unwrap_or_default();
    let mut databases = Databases::new();
    let (mut wrong, mut turn) = (String::new(), 0);
    for (number, change) in CHANGES.iter().enumerate().filter(|(_, change)| change.contains(&only)) {
        for (position, &statement) in STATEMENTS.iter().enumerate() {
            if !all && (number + position) % 11 != 0 {
                continue;
            }
            let serial = ["s d", "d s"].map(|order| databases.case(0, order, change, statement).text());
            for order in INTERLEAVINGS {
                turn += 1;
                let protocol = turn % databases.databases.len();
                let outcome = databases.case(protocol, order, change, statement).text();
                if !serial.contains(&outcome) {
                    let name = databases.databases[protocol].0;
                    let _ = writeln!(
                        wrong,
                        "--- {name}, {order}: {change} // {}\n{outcome}\nserial:\n{}\nor\n{}",
                        statement.1, serial[0], serial[1]
                    );
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
