//! Reads rows from a path or from standard input, gzip or plain, which the first two bytes tell apart.
//!
//! Invariants:
//! - A record is one line: a quote that is not closed spoils its own line, and no other one.
//! - Rows are needed twice, by the transactions and by the plain pass, but standard input can be read only once. So it
//!   is copied to a temporary file on the way.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::row::{FlightRow, Heading};
use crate::{Error, Result};

/// The first bytes of every gzip file.
const GZIP: [u8; 2] = [0x1F, 0x8B];

/// The first bytes of a text that says that it is UTF-8.
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Bytes read from the system at once.
const BUFFER: usize = 256 * 1024;

/// A file of flights, which can be read again.
#[derive(Debug)]
pub(super) enum Input {
    /// A file with a name.
    Path(PathBuf),
    /// Standard input, and the file that keeps what was read from it.
    Standard(File),
}

impl Input {
    /// `-` is standard input. A file that can't be opened is refused here, before anything has begun.
    pub fn new(path: &Path) -> Result<Self> {
        if path != Path::new("-") {
            return match File::open(path) {
                Ok(_) => Ok(Input::Path(path.to_owned())),
                Err(reason) => {
                    Err(Error::Unusable(format!("{}: {reason}; give a file of flights", path.display())))
                }
            };
        }
        let keep = tempfile::tempfile();
        Ok(Input::Standard(
            keep.map_err(|reason| Error::stream("keeping standard input for the check", reason))?,
        ))
    }

    /// The rows, read for the first time.
    pub fn first_rows(&self) -> Result<Rows> {
        match self {
            Input::Path(path) => rows_of_path(path),
            Input::Standard(keep) => {
                let keep = keep.try_clone().map_err(|reason| Error::stream("standard input", reason))?;
                rows(Box::new(Keeping { from: io::stdin(), keep }), "standard input")
            }
        }
    }

    /// The rows, read again.
    pub fn rows_again(&self) -> Result<Rows> {
        match self {
            Input::Path(path) => rows_of_path(path),
            Input::Standard(keep) => {
                let failed = |reason| Error::stream("reading standard input again", reason);
                let mut keep = keep.try_clone().map_err(failed)?;
                keep.seek(SeekFrom::Start(0)).map_err(failed)?;
                rows(Box::new(keep), "standard input")
            }
        }
    }
}

/// The lines of an input behind its heading.
pub(super) struct Rows {
    lines: Box<dyn BufRead + Send>,
    heading: Heading,
    name: String,
    /// The number of the last line that was read, from 1.
    number: u64,
    line: Vec<u8>,
}

/// A line that is not empty.
pub(super) struct Line {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Its columns; `None` if it does not parse.
    pub row: Option<FlightRow>,
}

impl Rows {
    /// Reads the next line; `None` at the end of the input.
    pub fn next_line(&mut self) -> Result<Option<Line>> {
        loop {
            if !self.read_line()? {
                return Ok(None);
            }
            if !self.line.is_empty() {
                let row = record_of(&self.line).and_then(|record| self.heading.row(&record));
                return Ok(Some(Line { number: self.number, row }));
            }
        }
    }

    /// Reads a line without its end. False at the end of the input.
    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        let read = self.lines.read_until(b'\n', &mut self.line);
        let read = read.map_err(|reason| Error::stream(format!("reading {}", self.name), reason))?;
        self.number += 1;
        while let Some(b'\n' | b'\r') = self.line.last() {
            self.line.pop();
        }
        Ok(read > 0)
    }
}

/// The fields of a line; `None` if a quote is not closed.
fn record_of(line: &[u8]) -> Option<csv::ByteRecord> {
    if !line.contains(&b'"') {
        return Some(line.split(|byte| *byte == b',').collect());
    }
    let quotes = line.iter().filter(|byte| **byte == b'"').count();
    if !quotes.is_multiple_of(2) {
        return None;
    }
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).buffer_capacity(line.len()).from_reader(line);
    let mut record = csv::ByteRecord::new();
    reader.read_byte_record(&mut record).ok().filter(|is_read| *is_read).map(|_| record)
}

fn rows_of_path(path: &Path) -> Result<Rows> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|reason| Error::stream(format!("opening {name}"), reason))?;
    rows(Box::new(file), &name)
}

fn rows(from: Box<dyn Read + Send>, name: &str) -> Result<Rows> {
    let from = unpacked(from).map_err(|reason| Error::stream(format!("reading {name}"), reason))?;
    let lines = Box::new(BufReader::with_capacity(BUFFER, from));
    let mut rows =
        Rows { lines, heading: Heading::default(), name: name.to_owned(), number: 0, line: Vec::new() };
    rows.read_line()?;
    let record = record_of(&rows.line).unwrap_or_default();
    rows.heading = Heading::parse(&record).map_err(|reason| Error::Unusable(format!("{name}: {reason}")))?;
    Ok(rows)
}

/// Unpacks what begins like gzip, passes on everything else, and drops a byte order mark.
pub(super) fn unpacked(from: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut from = BufReader::with_capacity(BUFFER, from);
    // A pipe may deliver a single byte first; only the end of the input may leave it at one.
    let mut start = Vec::new();
    while start.len() < GZIP.len() && !from.fill_buf()?.is_empty() {
        start.push(from.fill_buf()?[0]);
        from.consume(1);
    }
    let packed = start == GZIP;
    let whole = io::Cursor::new(start).chain(from);
    if packed { without_mark(MultiGzDecoder::new(BufReader::new(whole))) } else { without_mark(whole) }
}

/// Drops the byte order mark that some programs write before UTF-8.
fn without_mark(mut from: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut start = Vec::new();
    from.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut start)?;
    if start == BYTE_ORDER_MARK {
        start.clear();
    }
    Ok(Box::new(io::Cursor::new(start).chain(from)))
}

/// Reads, and keeps a copy of what was read.
struct Keeping<R> {
    from: R,
    keep: File,
}

impl<R: Read> Read for Keeping<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.keep.write_all(&buffer[..count])?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::super::row::COLUMNS;
    use super::*;

    /// Delivers one byte at a time, as a slow pipe does.
    struct Slow(io::Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let one = buffer.len().min(1);
            self.0.read(&mut buffer[..one])
        }
    }

    fn read_through(bytes: Vec<u8>) -> Vec<u8> {
        let mut read = Vec::new();
        unpacked(Box::new(Slow(io::Cursor::new(bytes)))).unwrap().read_to_end(&mut read).unwrap();
        read
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn plain_and_packed_input_read_the_same() {
        for text in ["", "x", "ab", "year,month\n2013,1\n"] {
            assert_eq!(read_through(text.into()), text.as_bytes());
            assert_eq!(read_through(packed(text.as_bytes())), text.as_bytes());
        }
    }

    #[test]
    fn packed_parts_one_after_another_are_one_input() {
        let mut both = packed(b"first,");
        both.extend(packed(b"second"));
        assert_eq!(read_through(both), b"first,second");
    }

    #[test]
    fn a_file_is_read_twice_and_a_missing_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flights.csv");
        std::fs::write(&path, format!("{}\n1,2\n", COLUMNS.join(","))).unwrap();
        let input = Input::new(&path).unwrap();
        for rows in [input.first_rows(), input.rows_again()] {
            let mut rows = rows.unwrap();
            let line = rows.next_line().unwrap().unwrap();
            assert_eq!((line.number, line.row), (2, None));
            assert!(rows.next_line().unwrap().is_none());
        }
        let missing = Input::new(Path::new("/nonexistent/flights.csv")).unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/flights.csv"));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_column() {
        let marked = [&BYTE_ORDER_MARK[..], b"year,month\n"].concat();
        assert_eq!(read_through(marked.clone()), b"year,month\n");
        assert_eq!(read_through(packed(&marked)), b"year,month\n");
        assert_eq!(read_through(BYTE_ORDER_MARK[..2].to_vec()), BYTE_ORDER_MARK[..2]);
    }

    /// The flights of these lines, with their numbers; `None` for a line that does not parse.
    fn read_lines(lines: &[&str]) -> Vec<(u64, Option<i32>)> {
        let text = [&[COLUMNS.join(",").as_str()][..], lines].concat().join("\n");
        let mut rows = rows(Box::new(io::Cursor::new(text.into_bytes())), "test").unwrap();
        let mut read = Vec::new();
        while let Some(line) = rows.next_line().unwrap() {
            read.push((line.number, line.row.map(|row| row.key.flight)));
        }
        read
    }

    #[test]
    fn an_unclosed_quote_spoils_its_own_line_only() {
        let line = |carrier: &str, flight: i32| {
            format!(
                "2013,1,1,517,515,2,830,819,11,{carrier},{flight},N1,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
            )
        };
        let lines = [line("UA", 1), line("\"UA", 2), line("\"UA\"", 3), String::new(), line("UA", 4) + "\r"];
        let lines = lines.each_ref().map(String::as_str);
        assert_eq!(read_lines(&lines), [(2, Some(1)), (3, None), (4, Some(3)), (6, Some(4))]);
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("planes.csv");
        std::fs::write(&path, "tailnum,year\nN1,2004\n").unwrap();
        let message = Input::new(&path).unwrap().first_rows().err().unwrap().to_string();
        assert!(
            message.contains("planes.csv") && message.contains("\"year\"") | message.contains("\"month\""),
            "{message}"
        );
    }

    #[test]
    fn cached_input_equals_the_input_that_was_read() {
        let keep = tempfile::tempfile().unwrap();
        let mut keeping =
            Keeping { from: io::Cursor::new(b"hello".to_vec()), keep: keep.try_clone().unwrap() };
        io::copy(&mut keeping, &mut io::sink()).unwrap();
        let (mut copy, mut text) = (keep, String::new());
        copy.seek(SeekFrom::Start(0)).unwrap();
        copy.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }
}
