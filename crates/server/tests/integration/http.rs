//! Metrics, health and the live page: what they answer, to whom, and what a browser makes of the page.

mod browser;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::skips;
use crate::support::Running;
use browser::Browser;
use heddle_server::server::Server;
use heddle_server::settings::Settings;
use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{Database, Options, ProtocolKind};
use postgres::{Client, Config, NoTls};

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
    let is_named = |name: &str| name.starts_with("heddle_") || name.starts_with("process_");
    let body = text.split("\r\n\r\n").nth(1).expect("a body");
    for line in body.lines() {
        let is_metric =
            line.split_once(' ').is_some_and(|(name, value)| is_named(name) && value.parse::<f64>().is_ok());
        let described = ["# HELP ", "# TYPE "].iter().find_map(|start| line.strip_prefix(start));
        assert!(is_metric || described.is_some_and(is_named), "{line}");
    }
}

/// Tests the metrics by which any process and its disk are monitored.
#[test]
fn metrics_tell_of_the_process_its_memory_and_its_disk() {
    let now = || {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs_f64()
    };
    let before = now();
    let place = tempfile::tempdir().expect("a directory");
    let db = Database::open(place.path().join("db"), Options::default()).expect("a new database");
    let running = Running::of(db, HTTP);
    let text = get(address(&running), "/metrics", "").1;
    let started = metric(&text, "process_start_time_seconds");
    assert!((before - 1.0..=now()).contains(&started), "{started}");
    assert!(metric(&text, "process_resident_memory_bytes") > 1e6);
    let (free, size) = (metric(&text, "heddle_disk_free_bytes"), metric(&text, "heddle_disk_size_bytes"));
    assert!(free > 0.0 && free <= size, "{free} of {size}");
    assert_eq!(metric(&text, "heddle_updates_refused"), 0.0);
}

/// Long values count where an option says so, which `heddle serve` sets.
#[test]
fn the_memory_of_rows_has_long_values_in_it() {
    let options = Options::default().durability(heddledb::Durability::None);
    let db = Database::in_memory_with(options.memory(|memory| memory.count_long_values(true)))
        .expect("a database");
    let running = Running::of(db, HTTP);
    let mut client = connect(&running);
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, text text)").expect("made");
    let bytes = || metric(&get(address(&running), "/metrics", "").1, "heddle_row_bytes");
    let before = bytes();
    client
        .batch_execute("INSERT INTO t SELECT g, repeat('x', 100000) FROM generate_series(1, 50) g")
        .expect("inserted");
    let grown = bytes() - before;
    assert!((5e6..8e6).contains(&grown), "{grown}");
    client.batch_execute("UPDATE t SET text = 'short'").expect("updated");
    let left = bytes() - before;
    assert!(left < 1e6, "{left}");
}

/// Tests the header of the page: it is green only if nothing needs attention.
#[test]
fn the_stream_tells_version_protocol_uptime_and_trouble() {
    let disk = SimulatedDisk::new();
    let options = Options::default().protocol(ProtocolKind::Locking);
    let db = Database::open("/db", options.disk(std::sync::Arc::new(disk.clone()))).expect("it opens");
    db.set_protocol(ProtocolKind::Optimistic).expect("a change");
    let running = Running::of(db.clone(), &format!("{HTTP}protocol = 'locking'\n"));
    let at = address(&running);
    let server = || event(&mut live(at, ""))["server"].clone();
    let well = server();
    assert_eq!(
        (&well["trouble"], &well["protocol"]),
        (&serde_json::Value::Null, &"optimistic".into()),
        "{well}"
    );
    assert!(
        well["uptime_s"].is_u64() && well["version"].is_string() && well["durability"] == "group",
        "{well}"
    );
    let mut client = connect(&running);
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").expect("the disk works");
    // A checkpoint that fails is trouble, until one succeeds.
    disk.fail_from_now(Operation::Rename, Fault::InputOutput);
    db.checkpoint().expect_err("its manifest gets no name");
    let failed = server();
    let trouble = failed["trouble"].as_str().unwrap_or_default();
    assert!(trouble.starts_with("the last checkpoint failed: "), "{failed}");
    disk.fail_from_now(Operation::Write, Fault::InputOutput);
    client.batch_execute("INSERT INTO t VALUES (1)").expect_err("the log cannot be written");
    let failed = server();
    let trouble = failed["trouble"].as_str().unwrap_or_default();
    assert!(trouble.starts_with("the log has failed, and commits are refused: "), "{failed}");
    assert_eq!(metric(&get(at, "/metrics", "").1, "heddle_updates_refused"), 1.0);
}

/// The busiest rows are listed without any conflict; accesses are noted only while a page looks.
#[test]
fn the_stream_lists_the_rows_that_are_accessed_most() {
    let options = Options::default().durability(heddledb::Durability::None);
    let db = Database::in_memory_with(options.diagnostics(|diagnostics| diagnostics.access_trace(true)));
    let running = Running::of(db.expect("a database"), HTTP);
    let mut client = connect(&running);
    client.batch_execute("CREATE TABLE page (id int PRIMARY KEY, n int); INSERT INTO page SELECT g, 0 FROM generate_series(1, 50) g").expect("made");
    let mut stream = live(address(&running), "");
    let mut busiest = serde_json::Value::Null;
    for _ in 0..60 {
        for _ in 0..40 {
            client.batch_execute("SELECT n FROM page WHERE id = 7").expect("read");
        }
        client.batch_execute("SELECT n FROM page WHERE id = 8").expect("read");
        busiest = event(&mut stream)["busiest"].clone();
        if busiest[0]["key"].as_str().is_some_and(|key| key.contains('7')) {
            break;
        }
    }
    assert_eq!(busiest[0]["table"].as_str().map(|table| table.contains("page")), Some(true), "{busiest}");
    assert!(busiest[0]["key"].as_str().is_some_and(|key| key.contains('7')), "{busiest}");
    assert!(busiest[0]["rate"].as_f64() > Some(0.0), "{busiest}");
    drop(stream);
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

/// A script that returns the parts of the page that a browser shows, once it has drawn two events.
const SHOWN: &str = "
    const style = element => getComputedStyle(element), luminance = color => {
        const [r, g, b] = color.match(/[\\d.]+/g).map(Number);
        return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
    };
    const sections = [...document.querySelectorAll('main > section')].filter(it => it.offsetParent);
    const beyond = element => element.getBoundingClientRect().right > innerWidth + 1;
    return {
        text: document.body.textContent,
        images: document.images.length,
        width: innerWidth,
        scrolled: document.documentElement.scrollWidth,
        beyond: sections.filter(beyond).map(it => it.textContent),
        columns: new Set(sections.map(it => Math.round(it.getBoundingClientRect().left))).size,
        charts: document.querySelectorAll('svg polyline').length,
        page: luminance(style(document.body).backgroundColor),
        ink: luminance(style(document.body).color),
        card: luminance(style(sections[0]).backgroundColor),
    };";

#[test]
fn a_browser_shows_the_page_in_all_widths_and_color_schemes() {
    let browser = match Browser::start() {
        Ok(browser) => browser,
        Err(why) => return skips::skip("chromium", &why),
    };
    let running = Running::with(HTTP);
    let mut client = connect(&running);
    client.batch_execute("SET application_name = '<img src=x onerror=alert(1)>'; SELECT 1").expect("run");
    for (width, columns) in [(390, 1), (1400, 4)] {
        for scheme in ["light", "dark"] {
            browser.emulate(width, scheme);
            browser.open(&format!("http://{}/", address(&running)));
            browser.wait_until("document.querySelector('.state.live') && history.commits.length > 1");
            let shown = browser.evaluate(SHOWN);
            let text = shown["text"].as_str().expect("a text");
            for part in [
                "Statement latency",
                "Busiest rows",
                "Hot rows",
                "Threads at work",
                "No row was written in the last minute.",
                "version",
                "auto",
            ] {
                assert!(text.contains(part), "{part} at {width}, {scheme}: {text}");
            }
            assert!(text.contains("SELECT $1") || text.contains("SET application_name"), "{text}");
            assert!(text.contains("<img src=x") && shown["images"] == 0, "names of clients are text: {text}");
            assert_eq!(shown["width"], width, "{shown}");
            // Less by the width of a scroll bar, where the page is taller than the screen.
            assert!(
                shown["scrolled"].as_u64() <= Some(width.into()),
                "nothing is wider than the screen: {shown}"
            );
            assert_eq!(shown["beyond"], serde_json::json!([]), "at {width}, {scheme}");
            assert!(shown["columns"].as_u64() >= Some(columns), "{shown}");
            assert!(shown["charts"].as_u64() > Some(3), "{shown}");
            let brightness = |name: &str| shown[name].as_f64().expect("a brightness");
            let (page, ink, card) = (brightness("page"), brightness("ink"), brightness("card"));
            assert_eq!(page > 0.5 && card > 0.5, scheme == "light", "{shown}");
            assert!((page - ink).abs() > 0.5 && (card - ink).abs() > 0.5, "texts are legible: {shown}");
        }
    }
    let picture = browser.screenshot();
    assert!(picture.starts_with("iVBORw0KGgo") && picture.len() > 10_000, "the page is drawn");
}

#[test]
fn live_pages_leave_room_for_health_and_metrics() {
    let running = Running::with(HTTP);
    let address = address(&running);
    let mut streams: Vec<_> = (0..48).map(|_| live(address, "")).collect();
    let is_open = |stream: &mut BufReader<TcpStream>| {
        let mut status = String::new();
        stream.read_line(&mut status).expect("it answers");
        status.contains(" 200 ")
    };
    let open = streams.iter_mut().map(is_open).filter(|is_open| *is_open).count();
    assert_eq!(open, 32, "further ones are refused");
    for path in ["/health", "/ready", "/metrics", "/"] {
        assert_eq!(get(address, path, "").0, 200, "{path}");
    }
    assert_eq!(get(address, "/live", "").0, 503);
    drop(streams);
    let again = Instant::now();
    while !is_open(&mut live(address, "")) {
        assert!(again.elapsed() < Duration::from_secs(30), "a page that is closed gives its place back");
    }
}
