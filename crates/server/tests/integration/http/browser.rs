//! A headless Chromium, driven by WebDriver: JSON over HTTP to `chromedriver`.
//!
//! Invariant: the driver and the browser end with [`Browser`].

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Time in which the driver must execute one command, starting the browser included.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one window.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one, or says which program is missing.
    pub fn start() -> Result<Browser, String> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("chromedriver (Debian: chromium-driver): {error}"))?;
        let mut lines = BufReader::new(driver.stdout.take().expect("it is piped")).lines();
        // "ChromeDriver was started successfully on port 12345."
        let port = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok());
        let port = port.expect("chromedriver tells its port");
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Browser { driver, port, session: String::new() };
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "timeouts": { "script": 60_000, "pageLoad": 60_000 },
        } } });
        let answer = browser.post("/session", &wanted);
        browser.session = answer["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        Ok(browser)
    }

    /// Shows pages as a screen of this width does whose user prefers this color scheme.
    pub fn emulate(&self, width: u32, scheme: &str) {
        let screen = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &screen);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    fn devtools(&self, command: &str, parameters: &Value) {
        self.command("goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.command("url", &json!({ "url": url }));
    }

    /// The result of a function's body in the page.
    pub fn evaluate(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until a condition holds, which is looked at whenever the page changes.
    ///
    /// # Panics
    /// It does not hold within a minute.
    pub fn wait_until(&self, condition: &str) {
        let script = format!(
            "const done = arguments[arguments.length - 1], holds = () => {condition};
             if (holds()) return done();
             const observer = new MutationObserver(() => {{ if (holds()) {{ observer.disconnect(); done(); }} }});
             observer.observe(document, {{ subtree: true, childList: true, attributes: true, characterData: true }});"
        );
        self.command("execute/async", &json!({ "script": script, "args": [] }));
    }

    /// A picture of the page, as base64 of a PNG.
    pub fn screenshot(&self) -> String {
        self.request("GET", &format!("/session/{}/screenshot", self.session), "")
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        self.post(&format!("/session/{}/{path}", self.session), body)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.request("POST", path, &body.to_string())
    }

    /// The value that the driver answers.
    fn request(&self, method: &str, path: &str, body: &str) -> Value {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n");
        let kind = "Content-Type: application/json\r\nConnection: close\r\n\r\n";
        socket.write_all(format!("{head}{kind}{body}").as_bytes()).expect("the driver reads");
        let mut reader = BufReader::new(socket);
        let (mut status, mut length) = (String::new(), 0);
        reader.read_line(&mut status).expect("a status");
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a header");
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).expect("a body");
        let answer: Value = serde_json::from_slice(&answer).expect("it is JSON");
        assert!(status.contains(" 200 "), "{path} {body}: {answer}");
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.request("DELETE", &format!("/session/{}", self.session), "");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
