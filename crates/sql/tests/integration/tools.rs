//! The first screens of pgAdmin and DBeaver, and Metabase's synchronization.
//!
//! `tools/` has one file for each tool: statements that read the relations, columns and functions that the tool
//! reads, joined as it joins them, each with the result that it must have: the columns with their types, and the rows.
//! Every result is compared with the kept one; where PostgreSQL 15 is installed, so is PostgreSQL's. `{account}` in a
//! statement stands for that relation's oid, and oids in results for the objects that they mean.
//!
//! `HEDDLE_WRITE_DOCS=1 cargo test -p heddle-sql --test integration tools::` writes the results again.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::support::oracle::{Oracle, Session};
use heddle_sql::{ConnectOptions, Connection, Sql};
use heddledb::{Database, Durability, Options};

const SCHEMA: [&str; 2] = [include_str!("catalogs/schema.sql"), include_str!("tools/schema.sql")];

/// A query that names an object for every oid that results may have.
const OIDS: &str = "select 'account' as name, 0::oid as oid where false
    union all select relname, oid from pg_class where relnamespace in ('public'::regnamespace, 'sales'::regnamespace)
    union all select 'type ' || typname, oid from pg_type where typnamespace = 'public'::regnamespace
    union all select 'routine ' || proname, oid from pg_proc where pronamespace = 'public'::regnamespace
    union all select 'schema ' || nspname, oid from pg_namespace where nspname = 'sales'";

/// Types that stand for PostgreSQL's where HeddleDB does not have these: the standard's `yes_or_no` has a length there.
const STAND_INS: [(&str, &str); 1] = [("character varying(3)", "character varying")];

type Rows = Vec<Vec<Option<String>>>;

/// A statement of a tool with its kept result.
struct Screen {
    name: String,
    query: String,
    kept: String,
}

/// A result as it is kept: the columns, then the rows.
fn shown(columns: &[(String, String)], rows: &Rows) -> String {
    let columns: Vec<String> = columns.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
    let field = |field: &Option<String>| match field {
        Some(text) => text.replace('\\', "\\\\").replace('\n', "\\n").replace('|', "\\|"),
        None => "NULL".to_string(),
    };
    let line = |row: &Vec<Option<String>>| row.iter().map(field).collect::<Vec<_>>().join(" | ");
    std::iter::once(columns.join(" | ")).chain(rows.iter().map(line)).collect::<Vec<_>>().join("\n")
}

fn screens(text: &str) -> Vec<Screen> {
    let blocks = text.split("-- ").filter(|block| !block.trim().is_empty());
    let screen = |block: &str| {
        let (name, rest) = block.split_once('\n').unwrap();
        let (query, kept) = rest.split_once("\n----\n").unwrap_or_else(|| panic!("{name}: no ----"));
        Screen { name: name.to_string(), query: query.to_string(), kept: kept.trim_end().to_string() }
    };
    blocks.map(screen).collect()
}

fn statements() -> impl Iterator<Item = &'static str> {
    SCHEMA.iter().flat_map(|text| text.split(";\n")).filter(|statement| !statement.trim().is_empty())
}

fn with_oids(query: &str, oids: &HashMap<String, String>) -> String {
    oids.iter().fold(query.to_string(), |query, (oid, name)| query.replace(&format!("{{{name}}}"), oid))
}

fn without_oids(rows: Rows, oids: &HashMap<String, String>) -> Rows {
    let shown = |text: String| oids.get(&text).map_or(text, |name| format!("{{{name}}}"));
    rows.into_iter().map(|row| row.into_iter().map(|field| field.map(shown)).collect()).collect()
}

/// Names by oids.
fn named(rows: Rows) -> HashMap<String, String> {
    rows.into_iter().filter_map(|mut row| Some((row.pop()??, row.pop()??))).collect()
}

struct Ours {
    connection: Connection,
    oids: HashMap<String, String>,
}

impl Ours {
    fn new() -> Ours {
        let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
        let options =
            ConnectOptions { user: "postgres".into(), is_superuser: true, database: "postgres".into() };
        let mut connection = Sql::new(&database).unwrap().connect(options).unwrap();
        for statement in statements() {
            connection.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        let mut ours = Ours { connection, oids: HashMap::new() };
        ours.oids = named(ours.run(OIDS).unwrap().1);
        ours
    }

    fn run(&mut self, query: &str) -> Result<(Vec<(String, String)>, Rows), String> {
        let results = self.connection.query(query).map_err(|error| error.to_string())?;
        let last = results.last().ok_or("no result")?;
        let rows = self.connection.text_rows(last).map_err(|error| error.to_string())?;
        let fields = last.fields.clone().ok_or("no columns")?;
        let columns = fields.iter().map(|field| {
            let text = format!("select format_type({}, {})", field.ty.oid(), field.modifier);
            let answer = self.connection.query(&text).unwrap();
            let kind = self.connection.text_rows(&answer[0]).unwrap()[0][0].clone().unwrap();
            (field.name.clone(), kind)
        });
        Ok((columns.collect(), rows))
    }

    fn screen(&mut self, query: &str) -> Result<String, String> {
        let (columns, rows) = self.run(&with_oids(query, &self.oids))?;
        Ok(shown(&columns, &without_oids(rows, &self.oids)))
    }
}

struct Theirs {
    session: Session,
    oids: HashMap<String, String>,
}

impl Theirs {
    fn new(oracle: &Oracle) -> Theirs {
        let mut session = oracle.connect();
        for statement in statements() {
            assert_eq!(session.run(statement).sqlstate, "00000", "{statement}");
        }
        let oids = named(session.run(OIDS).rows);
        Theirs { session, oids }
    }

    fn screen(&mut self, query: &str) -> Result<String, String> {
        let query = with_oids(query, &self.oids);
        let mut columns = self.session.describe(&query)?;
        for (_, kind) in &mut columns {
            if let Some((_, ours)) = STAND_INS.iter().find(|(theirs, _)| theirs == kind) {
                *kind = ours.to_string();
            }
        }
        Ok(shown(&columns, &without_oids(self.session.run(&query).rows, &self.oids)))
    }
}

/// Runs a tool's statements here and on PostgreSQL, and compares both with what is kept.
fn replay(tool: &str) {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/integration/tools").join(format!("{tool}.txt"));
    let screens = screens(&std::fs::read_to_string(&path).unwrap());
    assert!(!screens.is_empty());
    let mut ours = Ours::new();
    let oracle = Oracle::start();
    let mut theirs = oracle.as_ref().map(Theirs::new);
    let keeps = std::env::var_os("HEDDLE_WRITE_DOCS").is_some();
    let (mut failures, mut written) = (Vec::new(), String::new());
    for Screen { name, query, kept } in screens {
        let found = ours.screen(&query).unwrap_or_else(|error| format!("error: {error}"));
        written += &format!("-- {name}\n{query}\n----\n{found}\n\n");
        let kept = if keeps { found.clone() } else { kept };
        if found != kept {
            failures.push(format!("{name}:\n  found:\n{found}\n  kept:\n{kept}"));
        }
        if let Some(theirs) = &mut theirs {
            let expected = theirs.screen(&query).unwrap_or_else(|state| format!("error: {state}"));
            if kept != expected {
                failures.push(format!("{name}:\n  kept:\n{kept}\n  PostgreSQL's:\n{expected}"));
            }
        }
    }
    if keeps {
        std::fs::write(&path, written.trim_end().to_string() + "\n").unwrap();
    }
    assert!(failures.is_empty(), "{} of {tool} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn pgadmin_shows_a_server_its_dashboard_and_its_tables() {
    replay("pgadmin");
}

#[test]
fn dbeaver_shows_a_database_with_its_objects_and_privileges() {
    replay("dbeaver");
}

#[test]
fn metabase_synchronizes_schemas_fields_and_fingerprints() {
    replay("metabase");
}
