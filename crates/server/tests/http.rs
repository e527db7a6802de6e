//! Metrics, health and the live page: what they answer, to whom, and what a browser makes of the page.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use heddle_server::server::Server;
use heddle_server::settings::Settings;
use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{Database, Options};
use postgres::{Client, Config, NoTls};
use support::Running;

const HTTP: &str = "http = '127.0.0.1:0'\n";

fn address(running: &Running) -> SocketAddr {
    running.server.http_address().expect("it is on")
}

fn connect(running: &Running) -> Client {
    let mut config = Config::new();
    config.host("127.0.0.1").port(running.port()).user("ada").dbname("heddle");
    config.connect(NoTls).expect("loopback is trusted")
}

/// Sends bytes, and returns the answer so far: all of it, unless it is a stream.
fn send(address: SocketAddr, bytes: &[u8]) -> BufReader<TcpStream> {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    socket.write_all(bytes).expect("it reads");
    BufReader::new(socket)
}

/// The status and the whole answer.
fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    let host = if headers.contains("Host:") { "" } else { "Host: localhost\r\n" };
    let mut answer = String::new();
    let text = format!("GET {path} HTTP/1.1\r\n{host}{headers}\r\n");
    send(address, text.as_bytes()).read_to_string(&mut answer).expect("it answers, and closes");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {answer}")), answer)
}

/// The next event of a stream.
fn event(stream: &mut BufReader<TcpStream>) -> serde_json::Value {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).expect("events come") > 0, "the stream has ended");
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str(data).expect("it is JSON");
        }
    }
}

fn live(address: SocketAddr, headers: &str) -> BufReader<TcpStream> {
    send(address, format!("GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n").as_bytes())
}

/// The value of a metric, by its name and labels.
fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn metrics_count_what_clients_did() {
    let running = Running::with(HTTP);
    let mut client = connect(&running);
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").expect("made");
    assert!(client.batch_execute("INSERT INTO t VALUES (1)").is_err());
    let (status, text) = get(address(&running), "/metrics", "");
    assert_eq!(status, 200);
    assert_eq!(metric(&text, "heddle_ready"), 1.0);
    assert_eq!(metric(&text, "heddle_connections"), 1.0);
    assert_eq!(metric(&text, "heddle_statement_seconds_count"), 3.0);
    assert_eq!(metric(&text, "heddle_statement_seconds_bucket{le=\"+Inf\"}"), 3.0);
    assert_eq!(metric(&text, "heddle_errors_total{sqlstate=\"23505\"}"), 1.0);
    assert_eq!(metric(&text, "heddle_sessions_by_state{state=\"idle\"}"), 1.0);
    assert!(metric(&text, "heddle_transactions_committed_total") > 0.0);
    let body = text.split("\r\n\r\n").nth(1).expect("a body");
    for line in body.lines() {
        let is_metric = line
            .split_once(' ')
            .is_some_and(|(name, value)| name.starts_with("heddle_") && value.parse::<f64>().is_ok());
        assert!(
            is_metric || line.starts_with("# HELP heddle_") || line.starts_with("# TYPE heddle_"),
            "{line}"
        );
    }
}

#[test]
fn a_server_is_healthy_before_it_is_ready() {
    let settings = Settings::load(Some(&format!("listen = '127.0.0.1:0'\n{HTTP}")), [], toml::Table::new());
    let starting = Server::listen(settings.expect("they are right")).expect("ports are free");
    let at = starting.http_address().expect("it is on");
    assert_eq!(get(at, "/health", "").0, 200);
    assert_eq!(get(at, "/ready", "").0, 503);
    assert!(get(at, "/metrics", "").1.contains("heddle_ready 0"));
    assert_eq!(event(&mut live(at, ""))["ready"], false);
    let db = heddledb::Database::in_memory().expect("it can be made");
    starting.serve(&db).expect("the catalog can be made");
    assert_eq!(get(at, "/ready", "").0, 200);
}

#[test]
fn a_server_whose_log_has_failed_is_healthy_but_not_ready() {
    let disk = SimulatedDisk::new();
    let db =
        Database::open("/db", Options::default().disk(std::sync::Arc::new(disk.clone()))).expect("it opens");
    let running = Running::of(db, HTTP);
    let at = address(&running);
    let mut client = connect(&running);
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").expect("the disk works");
    assert_eq!(get(at, "/ready", "").0, 200);
    disk.fail_from_now(Operation::Write, Fault::InputOutput);
    let error = client.batch_execute("INSERT INTO t VALUES (1)").expect_err("the log cannot be written");
    assert_eq!(error.code().expect("the server's").code(), "58030");
    assert_eq!(get(at, "/health", "").0, 200);
    let (status, answer) = get(at, "/ready", "");
    assert!(status == 503 && answer.contains("the log has failed"), "{answer}");
    assert!(get(at, "/metrics", "").1.contains("heddle_ready 0"));
}

#[test]
fn requests_that_other_sites_could_make_are_refused() {
    let running = Running::with(HTTP);
    let at = address(&running);
    for path in ["/", "/metrics", "/live", "/health"] {
        assert_eq!(get(at, path, "Host: evil.example\r\n").0, 403, "{path}");
        assert_eq!(get(at, path, "Origin: http://evil.example\r\n").0, 403, "{path}");
    }
    assert_eq!(get(at, "/", "Origin: http://localhost\r\n").0, 200);
    assert_eq!(get(at, "/../etc/passwd", "").0, 404);
    let mut answer = String::new();
    send(at, b"DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .read_to_string(&mut answer)
        .expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    let (_, page) = get(at, "/", "");
    assert!(page.contains("Content-Security-Policy: default-src 'none'"));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        let allowed = page.matches(outside).count();
        let own = page.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(allowed, if outside == "http://" { own } else { 0 }, "the page loads nothing: {outside}");
    }
}

#[test]
fn a_token_protects_everything_but_the_empty_page_and_health() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("token");
    std::fs::write(&file, "0123456789abcdef\n").expect("written");
    let http =
        format!("http = '0.0.0.0:0'\nhttp_token_file = '{}'\nallow_unencrypted = true\n", file.display());
    let running = Running::with(&http);
    let at = SocketAddr::from(([127, 0, 0, 1], address(&running).port()));
    let bearer = "Authorization: Bearer 0123456789abcdef\r\n";
    for path in ["/metrics", "/live"] {
        assert_eq!(get(at, path, "").0, 401, "{path}");
        assert_eq!(get(at, path, "Authorization: Bearer 0123456789abcdeX\r\n").0, 401, "{path}");
    }
    assert_eq!((get(at, "/", "").0, get(at, "/health", "").0), (200, 200));
    assert_eq!(get(at, "/metrics", &format!("Host: db.example\r\n{bearer}")).0, 200);
    assert_eq!(event(&mut live(at, bearer))["ready"], true);
    std::fs::write(&file, "short").expect("written");
    let text = format!("listen = '127.0.0.1:0'\n{http}");
    let settings = Settings::load(Some(&text), [], toml::Table::new()).expect("they are right");
    let refused = Server::listen(settings).map(drop).expect_err("too short a token");
    assert!(refused.to_string().contains("less than 16 bytes"), "{refused}");
}

#[test]
fn the_stream_shows_sessions_and_hides_texts_once_there_are_users() {
    let running = Running::with(HTTP);
    let mut client = connect(&running);
    client.batch_execute("SELECT 'canary' AS shown").expect("run");
    let mut stream = live(address(&running), "");
    let first = event(&mut stream);
    assert_eq!(first["sessions"]["total"], 1);
    // A rate over less time would say nothing.
    assert!(first["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.2), "{first}");
    assert_eq!(first["sessions"]["list"][0]["statement"], "SELECT $1 AS shown");
    client.batch_execute("SELECT 1").expect("run");
    // It comes with the first event after the statement has ended.
    while event(&mut stream)["rates"]["statements"].as_f64().is_none_or(|rate| rate == 0.0) {}
    client.batch_execute("CREATE ROLE bob LOGIN PASSWORD 'a password'").expect("created");
    let hidden = event(&mut live(address(&running), ""));
    assert_eq!(hidden["sessions"]["list"][0]["statement"], serde_json::Value::Null);
}

#[test]
fn slow_large_and_many_clients_neither_end_nor_block_the_server() {
    let running = Running::with(HTTP);
    let at = address(&running);
    let silent: Vec<TcpStream> = (0..100).filter_map(|_| TcpStream::connect(at).ok()).collect();
    drop(silent);
    let mut answer = Vec::new();
    let large = [b"GET / HTTP/1.1\r\n".as_slice(), &vec![b'a'; 20_000]].concat();
    let _ = send(at, &large).read_to_end(&mut answer);
    for garbage in [b"\x16\x03\x01\x00\xa5".as_slice(), b"\r\n\r\n", b"GET /\r\n\r\n", &[0xff; 100]] {
        let mut socket = TcpStream::connect(at).expect("it listens");
        let _ = socket.write_all(garbage);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let _ = socket.read_to_end(&mut answer);
    }
    // Places are free again when their threads have seen that the clients have left; until then others are closed.
    let answers = |_: &u32| {
        let mut answer = String::new();
        let text = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
        send(at, text).read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200")
    };
    assert!((0..100_000).any(|attempt| answers(&attempt)), "it never answers again");
    let stream = live(at, "");
    connect(&running).batch_execute("SELECT 1").expect("clients of SQL go on");
    // An open stream does not hold the shutdown up.
    let Running { server, .. } = running;
    server.shut_down();
    drop(stream);
}

/// The page's elements in headless Chromium, once it has shown an event; none: there is no Chromium.
fn rendered(url: &str, width: u32) -> Option<String> {
    let profile = tempfile::tempdir().expect("a directory");
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    })?;
    // It prints the page as soon as the page is loaded, whether the first event has come by then or not.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(300) {
        let output = Command::new(found)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--window-size={width},900"))
            .args(["--virtual-time-budget=3000", "--timeout=20000"])
            .arg(url)
            .output()
            .expect("it runs");
        let page = String::from_utf8_lossy(&output.stdout).into_owned();
        if page.contains("class=\"state live\"") {
            return Some(page);
        }
    }
    panic!("{found} never showed an event of {url}");
}

#[test]
fn a_browser_shows_the_page_on_screens_of_all_widths() {
    let running = Running::with(HTTP);
    let mut client = connect(&running);
    client.batch_execute("SET application_name = '<img src=x onerror=alert(1)>'; SELECT 1").expect("run");
    for width in [390, 1400] {
        let Some(page) = rendered(&format!("http://{}/", address(&running)), width) else {
            println!("skipped: there is no Chromium (Debian: chromium)");
            return;
        };
        for shown in ["Statement latency", "Hot rows", "Stage utilization", "No row has caused a conflict."] {
            assert!(page.contains(shown), "{shown} at {width}: {page}");
        }
        assert!(
            page.contains("SELECT $1") || page.contains("SET application_name"),
            "the session's statement: {page}"
        );
        assert!(page.contains("&lt;img src=x"), "names of clients are text: {page}");
        assert!(!page.contains("<img"), "{page}");
    }
}
