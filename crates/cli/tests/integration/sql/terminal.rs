//! The shell in a terminal: what is typed, pasted and interrupted. `script` (Debian: bsdutils) makes the terminal.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::skips;

/// Time for which the tests wait for something that must happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// The shell, in a terminal of its own without a locale.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<String>>,
    /// Length of the output that was already matched, which is not matched again.
    seen: usize,
}

impl Terminal {
    fn start(directory: &std::path::Path) -> Option<Terminal> {
        // A shell between them would end by the Ctrl-C that it gets, too.
        let command = format!("exec {} sql {}/db", env!("CARGO_BIN_EXE_heddle"), directory.display());
        let mut script = Command::new("script");
        script.args(["-qfec", &command, "/dev/null"]).env("TERM", "xterm").env("HOME", directory);
        for name in ["LANG", "LC_ALL", "LC_CTYPE"] {
            script.env_remove(name);
        }
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = script.spawn() else {
            skips::skip("script", "there is no script, which makes a terminal (Debian: bsdutils)");
            return None;
        };
        let (keys, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let shown = Arc::new(Mutex::new(String::new()));
        let all = shown.clone();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut piece) {
                all.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        });
        let mut terminal = Terminal { child, keys, shown, seen: 0 };
        terminal.wait_for("heddle=>");
        Some(terminal)
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Returns true if a text is in the output that was not matched yet, and marks it as matched.
    fn shows(&mut self, text: &str) -> bool {
        let shown = self.shown.lock().unwrap();
        let found = shown[self.seen..].find(text);
        self.seen = found.map_or(self.seen, |at| self.seen + at + text.len());
        found.is_some()
    }

    /// Presses keys again and again, until a text is shown.
    fn press_until(&mut self, keys: &str, text: &str) {
        let start = Instant::now();
        while !self.shows(text) {
            assert!(start.elapsed() < PATIENCE, "{text:?} is not shown: {}", self.shown.lock().unwrap());
            self.press(keys);
            let pressed = Instant::now();
            while pressed.elapsed() < Duration::from_secs(2) && !self.is_ahead(text) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Returns true if a text is shown behind what was seen.
    fn is_ahead(&self, text: &str) -> bool {
        self.shown.lock().unwrap()[self.seen..].contains(text)
    }

    /// Waits for the end, which must be a good one.
    fn ends(&mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.shown.lock().unwrap());
    }

    fn wait_for(&mut self, text: &str) {
        let start = Instant::now();
        while !self.shows(text) {
            assert!(start.elapsed() < PATIENCE, "{text:?} is not shown: {}", self.shown.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn lines_that_are_pasted_without_marks_are_all_run() {
    let place = tempfile::tempdir().unwrap();
    let Some(mut terminal) = Terminal::start(place.path()) else { return };
    terminal.press("select 1 as one;\rselect 2 as two;\rselect 3\r as three;\r");
    for result in ["-----\r\n   1\r\n", "-----\r\n   2\r\n", "-------\r\n     3\r\n"] {
        terminal.wait_for(result);
    }
    terminal.press("\\q\r");
    terminal.ends();
}

#[test]
fn words_and_commands_do_what_psql_does_within_statements_too() {
    let place = tempfile::tempdir().unwrap();
    let Some(mut terminal) = Terminal::start(place.path()) else { return };
    terminal.press("help\r");
    terminal.wait_for("You are using heddle sql");
    terminal.press("select (\r");
    terminal.wait_for("heddle(>");
    terminal.press("help\r");
    terminal.wait_for("press control-C to clear the input buffer");
    terminal.press("\\?\r");
    terminal.wait_for("Ctrl-C cancels");
    terminal.press("\\r\r");
    terminal.wait_for("Query buffer reset");
    terminal.press("\\x\r");
    terminal.wait_for("Expanded display is on.");
    terminal.press("select\r");
    terminal.wait_for("heddle->");
    terminal.press("\\q\r");
    terminal.ends();
    let Some(mut terminal) = Terminal::start(place.path()) else { return };
    terminal.press("exit\r");
    terminal.ends();
}

#[test]
fn control_c_cancels_the_statement_that_runs_and_forgets_what_was_typed() {
    let place = tempfile::tempdir().unwrap();
    let Some(mut terminal) = Terminal::start(place.path()) else { return };
    terminal.press("select count(*) from generate_series(1, 100000000) g, generate_series(1, 1000) h;\r");
    let start = Instant::now();
    // A key that comes before the statement runs belongs to the line editor.
    terminal.press_until("\u{3}", "canceling statement due to user request");
    // So does one that comes behind its end, which takes what is typed at the same moment with it.
    terminal.press_until("select 40 + 1 as before;\r", "    41\r\n");
    terminal.wait_for("heddle=>");
    terminal.press("select 'never\r");
    terminal.wait_for("heddle'>");
    terminal.press("\u{3}");
    terminal.wait_for("heddle=>");
    terminal.press("select 40 + 2 as after;\r");
    terminal.wait_for("    42\r\n");
    terminal.press("\\watch 0.1\r");
    terminal.wait_for("time 2)");
    while !terminal.shows("heddle=>") {
        assert!(start.elapsed() < 2 * PATIENCE, "{}", terminal.shown.lock().unwrap());
        terminal.press("\u{3}");
        std::thread::sleep(Duration::from_millis(500));
    }
    terminal.press("\u{4}");
    terminal.ends();
}
