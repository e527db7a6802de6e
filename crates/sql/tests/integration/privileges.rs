//! Privileges, compared with PostgreSQL: what each allows a role to do, and the errors where it does not.

mod random;
mod scripts;

use crate::support::oracle::{Oracle, Session};
use heddle_sql::{ConnectOptions, Connection, Sql};
use heddledb::{Database, Durability, Options};

/// The answer of either database: the rows, or the SQLSTATE and the message.
type Answer = Result<Vec<Vec<Option<String>>>, (String, String)>;

/// This database and PostgreSQL, which execute the same statements.
struct Both {
    ours: Connection,
    theirs: Session,
    /// Statements whose answers differ.
    differences: Vec<String>,
    compared: usize,
}

fn start() -> Option<(Both, Oracle)> {
    let oracle = Oracle::start()?;
    let theirs = oracle.connect();
    Some((Both { ours: superuser(), theirs, differences: Vec::new(), compared: 0 }, oracle))
}

fn superuser() -> Connection {
    let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    let options = ConnectOptions { user: "postgres".into(), is_superuser: true, database: "postgres".into() };
    Sql::new(&database).unwrap().connect(options).unwrap()
}

fn ours(connection: &mut Connection, statement: &str) -> Answer {
    let mut results = connection
        .query(statement)
        .map_err(|error| (error.state().as_str().to_string(), error.message().to_string()))?;
    Ok(match results.pop() {
        Some(result) if result.fields.is_some() => connection.text_rows(&result).unwrap(),
        _ => Vec::new(),
    })
}

impl Both {
    fn answers(&mut self, statement: &str) -> (Answer, Answer) {
        let answer = self.theirs.run(statement);
        let theirs = match answer.sqlstate.as_str() {
            "00000" => Ok(answer.rows),
            state => Err((state.to_string(), self.theirs.last_message())),
        };
        (ours(&mut self.ours, statement), theirs)
    }

    /// Runs a statement that both must accept.
    fn run(&mut self, statements: &str) {
        for statement in statements.split(';').map(str::trim).filter(|it| !it.is_empty()) {
            let (ours, theirs) = self.answers(statement);
            assert!(ours.is_ok(), "{statement}: {ours:?}");
            assert!(theirs.is_ok(), "{statement}: {theirs:?} of PostgreSQL");
        }
    }

    /// Notes a difference between the answers.
    fn compare(&mut self, context: &str, statement: &str) {
        let (ours, theirs) = self.answers(statement);
        self.compared += 1;
        if ours != theirs {
            self.differences.push(format!("{context}: {statement}\n   ours {ours:?}\n theirs {theirs:?}"));
        }
    }

    /// Compares a statement whose effects are taken back.
    fn compare_in_block(&mut self, context: &str, statement: &str) {
        let _ = self.answers("begin");
        self.compare(context, statement);
        let _ = self.answers("rollback");
    }

    fn finish(self, at_least: usize) {
        assert!(self.differences.is_empty(), "{}", self.differences.join("\n"));
        assert!(self.compared >= at_least, "only {} statements were compared", self.compared);
    }
}

const TABLES: &str = "
    create role owner; create role worker; create role other;
    grant create on schema public to owner;
    set session authorization owner;
    create table t (a int primary key, b int, c text default 'x');
    create table child (id int primary key, t int references t);
    create sequence s;
    create view v as select a, b from t where b > 0;
    insert into t values (1, 10, 'one'), (2, 20, 'two');
    insert into child values (1, 1);
    reset session authorization";

/// Grants, each tried by itself.
const GRANTS: &[&str] = &[
    "",
    "grant select on t to worker",
    "grant insert on t to worker",
    "grant update on t to worker",
    "grant delete on t to worker",
    "grant truncate on t to worker",
    "grant references on t to worker",
    "grant select (a) on t to worker",
    "grant select (a, b) on t to worker",
    "grant insert (a, b) on t to worker",
    "grant update (b) on t to worker",
    "grant select (a), update (b) on t to worker",
    "grant select, update on t to worker",
    "grant select, insert on t to worker",
    "grant select, delete on t to worker",
    "grant all on t to worker",
    "grant select on t to public",
    "grant select on v to worker",
    "grant select (a) on v to worker",
    "grant all on v to worker",
    "grant update on v to worker",
    "grant delete on v to worker",
    "grant insert on v to worker",
    "grant usage on sequence s to worker",
    "grant select on sequence s to worker",
    "grant update on sequence s to worker",
    "grant all on child to worker",
    "grant all on all tables in schema public to worker",
    "grant all on all sequences in schema public to worker",
    "grant owner to worker",
    "revoke usage on schema public from public",
    "grant select on t to worker with grant option",
];

const STATEMENTS: &[&str] = &[
    "select * from t order by a",
    "select a from t order by a",
    "select b from t where a = 1",
    "select a from t where b = 10",
    "select count(*) from t",
    "select 1 from t limit 1",
    "select t from t where a = 1",
    "select t.a from t join t u using (a) order by 1",
    "with w as (select a, b from t) select a from w order by a",
    "select (select max(b) from t)",
    "select exists (select from t)",
    "select a from t order by b",
    "select a from t where a = 1 for update",
    "select a from t where a = 1 for share",
    "select * from v order by a",
    "select a from v order by a",
    "select a from v for update",
    "select * from public.t order by a",
    "insert into t values (3, 30, 'three')",
    "insert into t (a, b) values (3, 30)",
    "insert into t (a) values (3)",
    "insert into t (a, b) values (3, 30) returning a",
    "insert into t (a, b) values (3, 30) returning c",
    "insert into t (a, b) values (1, 30) on conflict do nothing",
    "insert into t (a, b) values (1, 30) on conflict (a) do nothing",
    "insert into t (a, b) values (1, 30) on conflict (a) do update set b = 5",
    "insert into t (a, b) values (1, 30) on conflict (a) do update set b = t.b + excluded.b",
    "insert into t (a, b) select a + 10, b from t",
    "insert into v values (4, 40)",
    "insert into t default values",
    "update t set b = 1",
    "update t set b = b + 1",
    "update t set b = 1 where a = 1",
    "update t set c = 'y' where a = 1",
    "update t set b = 1 returning a",
    "update t set b = u.b from t u where u.a = t.a",
    "update v set b = 5",
    "update v set b = 5 where a = 1",
    "delete from t",
    "delete from t where a = 2",
    "delete from t where a = 2 returning b",
    "delete from v",
    "with d as (delete from t where a = 2 returning a) select * from d",
    "merge into t using child on t.a = child.t when matched then update set b = 0",
    "merge into t using (values (9)) as n (x) on t.a = n.x when not matched then insert values (n.x, 1, 'm')",
    "merge into t using (values (2)) as n (x) on t.a = n.x when matched then delete",
    "truncate t cascade",
    "truncate child",
    "lock table t in access share mode",
    "lock table t in exclusive mode",
    "create table x (t int references t)",
    "create index on t (b)",
    "alter table t add column d int",
    "alter table child rename to kid",
    "alter table t owner to worker",
    "drop table t",
    "drop view v",
    "drop sequence s",
    "comment on table t is 'mine'",
    "create temp view w as select * from t",
    "create temp table copy as select * from t",
    "create table like_t (like t)",
    "select nextval('s')",
    "select setval('s', 5)",
    "select last_value from s",
    "alter sequence s restart",
    "grant select on t to other",
    "grant insert on t to other",
    "insert into child values (2, 2)",
    "insert into child values (3, 33)",
    "insert into child values (1, 1)",
    "insert into child values (5, null)",
    "delete from child",
    "declare c cursor for select b from t",
    "select has_table_privilege('t', 'select'), has_table_privilege('t', 'insert, update'),
            has_any_column_privilege('t', 'select'), has_column_privilege('t', 'a', 'select')",
    "select has_table_privilege('t', 'select with grant option'), has_sequence_privilege('s', 'usage'),
            has_schema_privilege('public', 'usage'), pg_has_role('owner', 'usage')",
    "select relacl from pg_class where relname in ('t', 's', 'v') order by relname",
    "select attacl from pg_attribute where attrelid = 't'::regclass and attacl is not null order by attnum",
];

#[test]
fn each_privilege_allows_what_it_allows_in_postgresql() {
    let Some((mut both, _oracle)) = start() else { return };
    both.run(TABLES);
    for grant in GRANTS {
        let reset = grants_back(grant);
        both.run(grant);
        both.run("set session authorization worker");
        for statement in STATEMENTS {
            both.compare_in_block(if grant.is_empty() { "nothing" } else { grant }, statement);
        }
        both.run("reset session authorization");
        both.run(&reset);
    }
    both.finish(GRANTS.len() * STATEMENTS.len());
}

/// The statement that reverses a grant.
fn grants_back(grant: &str) -> String {
    if let Some(revoked) = grant.strip_prefix("revoke ") {
        return format!("grant {}", revoked.replace(" from ", " to "));
    }
    let grant = grant.trim_end_matches(" with grant option");
    grant.replacen("grant ", "revoke ", 1).replace(" to ", " from ")
}

/// Statements about roles, each by the role in front of it, in order; none is taken back.
const ROLES: &[(&str, &str)] = &[
    ("postgres", "create role boss login createrole password 'p'"),
    ("postgres", "create user ann connection limit 2 valid until '2030-01-01 00:00:00+00'"),
    ("postgres", "create role ann"),
    ("postgres", "create role pg_mine"),
    ("postgres", "create role \"public\""),
    ("postgres", "create role none"),
    ("postgres", "create role x connection limit -2"),
    ("postgres", "create role x superuser nosuperuser"),
    ("postgres", "create role grp role ann"),
    ("postgres", "create role heir noinherit in role grp"),
    ("postgres", "create role adm admin boss"),
    ("boss", "create role small"),
    ("boss", "create role big superuser"),
    ("boss", "create role repl replication"),
    ("boss", "alter role ann superuser"),
    ("boss", "alter role ann createdb"),
    ("boss", "alter role postgres password 'x'"),
    ("boss", "drop role postgres"),
    ("boss", "grant postgres to ann"),
    ("boss", "grant adm to ann"),
    ("boss", "drop role nobody"),
    ("boss", "drop role if exists nobody"),
    ("boss", "drop role boss"),
    ("boss", "drop role current_user"),
    ("boss", "alter role boss rename to chief"),
    ("boss", "alter role small rename to tiny"),
    ("boss", "alter role tiny rename to ann"),
    ("ann", "create role more"),
    ("ann", "alter role ann password 'secret'"),
    ("ann", "alter role ann createrole"),
    ("ann", "alter role boss nologin"),
    ("ann", "drop role tiny"),
    ("ann", "grant grp to tiny"),
    ("ann", "set role grp"),
    ("ann", "select current_user, session_user, current_setting('role')"),
    ("ann", "set role boss"),
    ("ann", "set role nobody"),
    ("ann", "set role none"),
    ("ann", "set session authorization boss"),
    ("ann", "select set_config('role', 'boss', false)"),
    ("ann", "select set_config('role', 'grp', false)"),
    ("ann", "select current_user"),
    ("ann", "reset role"),
    ("ann", "select current_user, current_setting('is_superuser')"),
    ("ann", "select rolname from pg_authid"),
    ("ann", "select * from pg_shadow"),
    ("ann", "select rolpassword from pg_roles where rolname = 'boss'"),
    ("ann", "checkpoint"),
    ("ann", "set is_superuser to on"),
    ("postgres", "grant grp to adm; grant adm to ann"),
    ("postgres", "grant ann to grp"),
    ("postgres", "grant grp to grp"),
    ("postgres", "grant nobody to ann"),
    ("postgres", "grant grp to nobody"),
    ("postgres", "revoke grp from tiny"),
    ("ann", "select pg_has_role('grp', 'usage'), pg_has_role('adm', 'member'), pg_has_role('boss', 'usage')"),
    ("heir", "select pg_has_role('grp', 'usage'), pg_has_role('grp', 'member')"),
    ("ann", "select pg_has_role('nobody', 'usage')"),
    ("ann", "select pg_has_role('grp', 'selecting')"),
    (
        "ann",
        "select rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolconnlimit, rolvaliduntil
         from pg_roles where rolname !~ '^pg_' and rolname <> 'postgres' order by 1",
    ),
    (
        "ann",
        "select r.rolname, m.rolname, a.admin_option from pg_auth_members a join pg_roles r on r.oid = a.roleid
         join pg_roles m on m.oid = a.member where m.rolname !~ '^pg_' order by 1, 2",
    ),
    ("ann", "create schema mine"),
    ("ann", "create table public.mine (a int)"),
    ("postgres", "grant create on database postgres to ann"),
    ("ann", "create schema mine"),
    ("ann", "create table mine.m (a int)"),
    ("boss", "select * from mine.m"),
    ("boss", "create table mine.other (a int)"),
    ("postgres", "create schema authorization boss"),
    ("postgres", "create schema for_ann authorization ann"),
    ("boss", "create table b (a int)"),
    ("boss", "select relname::text, relowner::regrole::text from pg_class where relname = 'b'"),
    ("boss", "drop role ann"),
    ("boss", "alter table b owner to ann"),
    ("boss", "alter schema mine owner to boss"),
    ("postgres", "alter table mine.m owner to boss"),
    ("ann", "drop table mine.m"),
    ("postgres", "reassign owned by ann to boss"),
    ("ann", "reassign owned by boss to ann"),
    ("ann", "drop owned by boss"),
    ("postgres", "drop owned by ann"),
    ("postgres", "drop role ann"),
    ("postgres", "drop owned by boss cascade"),
    ("postgres", "drop role boss, grp"),
    ("postgres", "select rolname from pg_roles where rolname !~ '^pg_' and rolname <> 'postgres' order by 1"),
];

#[test]
fn roles_are_made_changed_and_dropped_as_in_postgresql() {
    let Some((mut both, _oracle)) = start() else { return };
    let mut last = "";
    for (role, statement) in ROLES {
        // A role keeps what it has set as long as its statements follow one another.
        if last != *role {
            both.run(&format!("set session authorization {role}"));
        }
        last = role;
        statement.split("; ").for_each(|statement| both.compare(role, statement));
    }
    let _ = both.answers("reset session authorization");
    both.finish(ROLES.len());
}

/// Grants by others than the owner, default privileges, and what access lists look like then.
const GRANTORS: &[(&str, &str)] = &[
    ("owner", "grant select on t to worker with grant option"),
    ("worker", "grant select on t to other"),
    ("worker", "grant insert on t to other"),
    ("worker", "grant select on t to public with grant option"),
    ("other", "grant select on t to worker"),
    ("owner", "select relacl from pg_class where relname = 't'"),
    ("owner", "revoke select on t from worker"),
    ("owner", "revoke grant option for select on t from worker"),
    ("owner", "revoke grant option for select on t from worker cascade"),
    ("owner", "select relacl from pg_class where relname = 't'"),
    ("owner", "grant select on t to nobody"),
    ("owner", "grant usage on t to worker"),
    ("owner", "grant fly on t to worker"),
    ("owner", "grant select (nothing) on t to worker"),
    ("owner", "grant delete (a) on t to worker"),
    ("owner", "grant select on nothing to worker"),
    ("owner", "grant select on sequence t to worker"),
    ("owner", "grant all on schema nothing to worker"),
    ("owner", "grant connect on database nothing to worker"),
    ("owner", "grant create on schema public to worker"),
    ("owner", "grant all privileges (a) on t to worker"),
    (
        "owner",
        "select attname, attacl from pg_attribute where attrelid = 't'::regclass and attacl is not null",
    ),
    ("owner", "revoke all on t from worker"),
    (
        "owner",
        "select attname, attacl from pg_attribute where attrelid = 't'::regclass and attacl is not null",
    ),
    ("owner", "revoke all on t from owner"),
    ("owner", "select * from t"),
    ("owner", "select relacl from pg_class where relname = 't'"),
    ("owner", "grant all on t to owner"),
    ("owner", "select relacl from pg_class where relname = 't'"),
    ("owner", "alter default privileges grant select on tables to worker"),
    ("owner", "alter default privileges in schema public grant usage on sequences to worker"),
    ("owner", "alter default privileges for role other grant select on tables to worker"),
    ("owner", "create table fresh (id serial primary key)"),
    ("owner", "select relname, relacl from pg_class where relname like 'fresh%' order by 1"),
    ("worker", "select * from fresh"),
    ("worker", "select nextval('fresh_id_seq')"),
    (
        "owner",
        "select defaclrole::regrole::text, defaclnamespace::regnamespace::text, defaclobjtype, defaclacl
         from pg_default_acl order by 3",
    ),
    ("owner", "alter default privileges revoke select on tables from worker"),
    ("owner", "alter default privileges in schema public revoke usage on sequences from worker"),
    ("owner", "select count(*) from pg_default_acl"),
    ("owner", "alter default privileges in schema nothing grant select on tables to worker"),
    ("owner", "alter default privileges in schema public grant usage on schemas to worker"),
    ("owner", "create table identity (id int generated always as identity, v int)"),
    ("owner", "grant insert on identity to worker"),
    ("worker", "insert into identity (v) values (1)"),
    ("owner", "create table serial (id serial, v int)"),
    ("owner", "grant insert on serial to worker"),
    ("worker", "insert into serial (v) values (1)"),
    ("owner", "create view over as select * from serial"),
    ("owner", "grant select on over to worker"),
    ("worker", "select count(*) from over"),
    ("worker", "select count(*) from serial"),
    ("postgres", "alter view over owner to other"),
    ("worker", "select count(*) from over"),
    ("owner", "alter sequence serial_id_seq owner to owner"),
    ("postgres", "alter sequence serial_id_seq owner to other"),
    ("postgres", "alter table serial owner to other"),
    (
        "postgres",
        "select relname, relowner::regrole::text from pg_class where relname like 'serial%' order by 1",
    ),
    ("postgres", "grant pg_read_all_data to worker"),
    ("worker", "select count(*) from t"),
    ("worker", "insert into t values (50)"),
    ("postgres", "grant pg_write_all_data to worker"),
    ("worker", "insert into t values (50)"),
    ("worker", "drop table t"),
    ("postgres", "create type mood as enum ('sad', 'ok')"),
    ("postgres", "revoke usage on type mood from public"),
    ("owner", "create table moody (m mood)"),
    ("postgres", "grant usage on type mood to owner"),
    ("owner", "create table moody (m mood)"),
    ("other", "drop type mood"),
    ("other", "alter type mood add value 'glad'"),
];

#[test]
fn grants_rest_on_grant_options_and_defaults_as_in_postgresql() {
    let Some((mut both, _oracle)) = start() else { return };
    both.run(TABLES);
    for (role, statement) in GRANTORS {
        both.run(&format!("set session authorization {role}"));
        both.compare(role, statement);
    }
    let _ = both.answers("reset session authorization");
    both.finish(GRANTORS.len());
}
