//! Where rows come from: a path or standard input, gzip or plain, told apart by the first two bytes.
//!
//! Standard input can be read only once, but rows are needed twice: by the calls and by the plain pass. So what is
//! read from there is kept in a temporary file on the way.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::row::Heading;
use crate::{Error, Result};

/// The first bytes of every gzip file.
const GZIP: [u8; 2] = [0x1F, 0x8B];

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

/// Rows of an input, and where their columns stand.
pub(super) struct Rows {
    pub reader: csv::Reader<Box<dyn Read + Send>>,
    pub heading: Heading,
    pub name: String,
}

impl Rows {
    /// Reads the next record; false at the end.
    pub fn read(&mut self, record: &mut csv::ByteRecord) -> Result<bool> {
        self.reader.read_byte_record(record).map_err(|error| unreadable(&self.name, error))
    }
}

fn unreadable(name: &str, error: csv::Error) -> Error {
    let text = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(reason) => Error::stream(format!("reading {name}"), reason),
        _ => Error::Unusable(format!("{name} is not readable as CSV: {text}")),
    }
}

fn rows_of_path(path: &Path) -> Result<Rows> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|reason| Error::stream(format!("opening {name}"), reason))?;
    rows(Box::new(file), &name)
}

fn rows(from: Box<dyn Read + Send>, name: &str) -> Result<Rows> {
    let from = unpacked(from).map_err(|reason| Error::stream(format!("reading {name}"), reason))?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).buffer_capacity(BUFFER).from_reader(from);
    let heading = reader.byte_headers().map_err(|error| unreadable(name, error))?;
    let heading = Heading::parse(heading).map_err(|reason| Error::Unusable(format!("{name}: {reason}")))?;
    Ok(Rows { reader, heading, name: name.to_owned() })
}

/// Unpacks what begins like gzip, and passes on everything else.
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
    Ok(if packed { Box::new(MultiGzDecoder::new(BufReader::new(whole))) } else { Box::new(whole) })
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
            let mut record = csv::ByteRecord::new();
            let mut rows = rows.unwrap();
            assert!(rows.read(&mut record).unwrap());
            assert_eq!(rows.heading.row(&record), None);
            assert!(!rows.read(&mut record).unwrap());
        }
        let missing = Input::new(Path::new("/nonexistent/flights.csv")).unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/flights.csv"));
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
    fn what_is_kept_is_what_was_read() {
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
