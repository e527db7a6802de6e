//! The sources as the house's rules look at them: without comments and strings, with tests distinguished.
//!
//! Invariant: every offset in `code` and `engine` is the same offset in `text`, because what is left out is
//! replaced by spaces, byte for byte, and line ends stay.

use std::fs;
use std::path::{Path, PathBuf};

/// One Rust file.
pub struct Source {
    /// From the workspace's root, with slashes.
    pub path: String,
    /// The file as it was written.
    pub text: String,
    /// Without comments, strings and characters.
    pub code: String,
    /// The code without tests; empty for a file that is a test as a whole.
    pub engine: String,
}

/// A place where a rule is broken, and what to do about it.
#[derive(Debug)]
pub struct Violation {
    pub path: String,
    pub line: usize,
    pub what: String,
}

/// Reads every Rust file of the workspace.
pub fn read_all() -> Vec<Source> {
    let root = root();
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests", "benches"] {
        collect(&root.join(folder), &mut files);
    }
    let rust = files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    let read = rust.map(|file| {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (relative(&root, &file), text)
    });
    prepare(read.collect())
}

/// The workspace's root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A path from the root, with slashes.
pub fn relative(root: &Path, file: &Path) -> String {
    let inside = file.strip_prefix(root).unwrap_or(file);
    inside.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// All files under a folder, but what was built there.
pub fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, files);
        } else if path.is_file() {
            files.push(path);
        }
    }
}

/// Makes sources of paths and texts.
pub fn prepare(files: Vec<(String, String)>) -> Vec<Source> {
    let mut sources: Vec<_> = files
        .into_iter()
        .map(|(path, text)| {
            let code = without_comments(&text);
            Source { path, text, code, engine: String::new() }
        })
        .collect();
    let mut test_modules = vec!["tests/".to_string(), "/tests/".to_string()];
    for source in &mut sources {
        let (engine, modules) = without_tests(&source.code);
        source.engine = engine;
        let folder = module_folder(&source.path);
        for module in modules {
            test_modules.push(format!("{folder}/{module}.rs"));
            test_modules.push(format!("{folder}/{module}/"));
        }
    }
    for source in &mut sources {
        let is_test = test_modules.iter().any(|module| {
            source.path.starts_with(module.as_str())
                || module.starts_with('/') && source.path.contains(module.as_str())
        });
        if is_test {
            source.engine = blanked(&source.code);
        }
    }
    sources
}

impl Source {
    /// The offsets at which a word stands in `code`, as a word of its own.
    pub fn words<'s>(code: &'s str, word: &'s str) -> impl Iterator<Item = usize> + 's {
        code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
            let before = code[..at].bytes().next_back();
            let after = code[at + word.len()..].bytes().next();
            let glued = |byte: Option<u8>, end: u8| is_name_byte(end) && byte.is_some_and(is_name_byte);
            let (first, last) = (word.as_bytes()[0], word.as_bytes()[word.len() - 1]);
            !glued(before, first) && !glued(after, last)
        })
    }

    /// A violation at an offset.
    pub fn violation(&self, at: usize, what: impl Into<String>) -> Violation {
        let line = self.text[..at].bytes().filter(|&byte| byte == b'\n').count() + 1;
        Violation { path: self.path.clone(), line, what: what.into() }
    }
}

/// The folder in which the modules that a file declares lie.
fn module_folder(path: &str) -> String {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    match stem.rsplit_once('/') {
        Some((folder, "mod" | "lib" | "main")) => folder.to_string(),
        _ => stem.to_string(),
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

fn blanked(text: &str) -> String {
    let blank = |byte| if byte == b'\n' { '\n' } else { ' ' };
    text.bytes().map(blank).collect()
}

fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if let Some(end) = opaque_end(text, at) {
            code.push_str(&blanked(&text[at..end]));
            at = end;
        } else {
            let character = text[at..].chars().next().unwrap_or(' ');
            code.push(character);
            at += character.len_utf8();
        }
    }
    code
}

/// The end of the comment, string or character that begins here, if one does.
fn opaque_end(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    let bytes = rest.as_bytes();
    let found = |length: Option<usize>| Some(at + length.unwrap_or(rest.len()));
    if rest.starts_with("//") {
        return found(rest.find('\n'));
    }
    if rest.starts_with("/*") {
        return found(block_comment(bytes));
    }
    if bytes[0] == b'"' {
        return found(quoted(bytes, b'"'));
    }
    let begins_word = !text[..at].bytes().next_back().is_some_and(is_name_byte);
    let raw = ["r", "br", "cr"].into_iter().find_map(|prefix| rest.strip_prefix(prefix));
    if let Some(raw) = raw.filter(|_| begins_word) {
        let hashes = raw.bytes().take_while(|&byte| byte == b'#').count();
        if raw[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let opened = rest.len() - raw.len() + hashes + 1;
            return found(rest[opened..].find(&close).map(|end| opened + end + close.len()));
        }
    }
    if bytes[0] == b'\'' {
        let inner = rest[1..].chars().next()?;
        let is_character = inner == '\\' || rest[1 + inner.len_utf8()..].starts_with('\'');
        return if is_character { found(quoted(bytes, b'\'')) } else { None };
    }
    None
}

fn block_comment(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" if depth == 1 => return Some(at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    None
}

fn quoted(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// The code without its tests, and the names of modules in other files that are tests.
fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let (mut left, mut modules, mut from) = (String::new(), Vec::new(), 0);
    while let Some(found) = code[from..].find(MARK) {
        let start = from + found;
        let end = item_end(code, start + MARK.len());
        let item = &code[start + MARK.len()..end];
        if let Some((_, name)) = item.split_once("mod ")
            && let Some(name) = name.strip_suffix(';')
        {
            modules.push(name.trim().to_string());
        }
        left.push_str(&code[from..start]);
        left.push_str(&blanked(&code[start..end]));
        from = end;
    }
    left.push_str(&code[from..]);
    (left, modules)
}

/// The end of the item that begins here: behind its closing brace, or its semicolon.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

mod canaries {
    use super::*;

    fn only(text: &str) -> Source {
        prepare(vec![("src/base/one.rs".to_string(), text.to_string())]).remove(0)
    }

    #[test]
    fn comments_strings_and_characters_are_no_code_and_lifetimes_are() {
        let source = only(concat!(
            "fn a<'x>(b: &'x str) -> char { /* unsafe /* unsafe */ unsafe */ '\\'' } // unsafe\n",
            "const C: &str = \"unsafe \\\" unsafe\"; const D: &str = r#\"unsafe \" unsafe\"#; const E: char = '\"';\n",
            "unsafe fn f() {}\n",
        ));
        let places: Vec<_> = Source::words(&source.code, "unsafe").collect();
        assert_eq!(places.len(), 1, "{}", source.code);
        assert_eq!(source.violation(places[0], "").line, 3);
        assert_eq!(source.code.len(), source.text.len());
        assert!(source.code.contains("'x"));
    }

    #[test]
    fn tests_are_left_out_and_what_follows_them_is_not() {
        let source = only("#[cfg(test)]\nmod tests { fn a() { b[0].unwrap(); } }\nfn c() { d.unwrap(); }\n");
        assert_eq!(source.engine.matches("unwrap").count(), 1);
        let attributes = only("#[cfg(test)]\n#[allow(x)]\nfn a() { unsafe {} }\nfn b() {}\n");
        assert!(!attributes.engine.contains("unsafe") && attributes.engine.contains("fn b"));
    }

    #[test]
    fn a_file_that_is_a_test_module_is_a_test_as_a_whole() {
        let files = [
            ("src/a/mod.rs", "#[cfg(test)]\nmod checks;\nmod real;\n"),
            ("src/a/checks.rs", "fn a() { b.unwrap(); }"),
            ("src/a/checks/deep.rs", "fn a() { b.unwrap(); }"),
            ("src/a/real.rs", "fn a() { b.unwrap(); }"),
        ];
        let sources = prepare(files.map(|(path, text)| (path.to_string(), text.to_string())).to_vec());
        let left: Vec<_> = sources.iter().filter(|source| source.engine.contains("unwrap")).collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].path, "src/a/real.rs");
    }

    #[test]
    fn a_word_is_found_only_as_a_word() {
        assert_eq!(Source::words("unsafe unsafely is_unsafe (unsafe)", "unsafe").count(), 2);
        assert_eq!(Source::words("a.unwrap() b.unwrap_or(c)", ".unwrap()").count(), 1);
    }
}
