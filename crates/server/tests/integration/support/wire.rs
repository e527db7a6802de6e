//! A client of protocol 3.0 that sends exactly the messages it is given, and returns those that it receives.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A message from the server: its type and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub tag: char,
    pub body: Vec<u8>,
}

impl Answer {
    /// A field of an ErrorResponse or NoticeResponse.
    pub fn field(&self, code: char) -> Option<String> {
        let mut fields = self.body.split(|byte| *byte == 0);
        fields.find(|field| field.first() == Some(&(code as u8))).map(|field| text(&field[1..]))
    }

    /// The values of a DataRow, as texts.
    pub fn values(&self) -> Vec<Option<String>> {
        let mut rest = &self.body[2..];
        let mut values = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk() {
            let length = i32::from_be_bytes(*length);
            let bytes = usize::try_from(length).unwrap_or(0);
            values.push((length >= 0).then(|| text(&after[..bytes])));
            rest = &after[bytes..];
        }
        values
    }

    /// The tag of a CommandComplete, or the status of a ReadyForQuery.
    pub fn text(&self) -> String {
        text(self.body.split(|byte| *byte == 0).next().unwrap_or_default())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A message: its type and its body.
pub fn message(tag: char, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag as u8], &length[..], body].concat()
}

/// Parse of an unnamed statement, Bind of an unnamed portal with these text parameters, Execute of all rows.
pub fn run(query: &str, parameters: &[&str]) -> Vec<u8> {
    [parse("", query), bind("", parameters), execute(0)].concat()
}

pub fn parse(name: &str, query: &str) -> Vec<u8> {
    message('P', &[name.as_bytes(), b"\0", query.as_bytes(), b"\0\0\0"].concat())
}

/// Binds the unnamed portal.
pub fn bind(statement: &str, parameters: &[&str]) -> Vec<u8> {
    let mut body = [b"\0", statement.as_bytes(), b"\0\0\0"].concat();
    body.extend((parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        body.extend((parameter.len() as u32).to_be_bytes());
        body.extend(parameter.as_bytes());
    }
    body.extend([0, 0]);
    message('B', &body)
}

/// Executes the unnamed portal.
pub fn execute(max_rows: u32) -> Vec<u8> {
    message('E', &[b"\0", &max_rows.to_be_bytes()[..]].concat())
}

pub fn sync() -> Vec<u8> {
    message('S', b"")
}

pub fn flush() -> Vec<u8> {
    message('H', b"")
}

pub struct Wire<S = TcpStream> {
    pub socket: S,
}

/// A connection to the server that nothing was sent through yet.
pub fn open(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    socket.set_nodelay(true).expect("an option");
    socket
}

/// A first message: what it asks for, and what follows.
pub fn first(code: u32, rest: &[u8]) -> Vec<u8> {
    let length = rest.len() as u32 + 8;
    [&length.to_be_bytes()[..], &code.to_be_bytes(), rest].concat()
}

impl Wire {
    /// A connection whose first answers are read already.
    pub fn connect(port: u16) -> Wire {
        let mut wire = Wire { socket: open(port) };
        assert_eq!(errors(&wire.start("ada")), Vec::<String>::new());
        wire
    }
}

impl<S: Read + Write> Wire<S> {
    /// Starts a session as this user: the answers up to ReadyForQuery, or up to an error.
    pub fn start(&mut self, user: &str) -> Vec<Answer> {
        self.start_in(user, "heddle")
    }

    /// Starts like [`start`](Self::start), in this database.
    pub fn start_in(&mut self, user: &str, database: &str) -> Vec<Answer> {
        let parameters = format!("user\0{user}\0database\0{database}\0\0");
        self.send(&first(0x0003_0000, parameters.as_bytes()));
        let mut answers = Vec::new();
        while !answers.last().is_some_and(|answer: &Answer| "ZE".contains(answer.tag)) {
            let Some(answer) = self.try_receive() else { break };
            answers.push(answer);
        }
        answers
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the server reads");
    }

    /// The next message; `None`: the server has closed the connection.
    pub fn try_receive(&mut self) -> Option<Answer> {
        let mut header = [0; 5];
        self.socket.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.socket.read_exact(&mut body).ok()?;
        Some(Answer { tag: header[0] as char, body })
    }

    pub fn receive(&mut self) -> Answer {
        self.try_receive().expect("the connection is open")
    }

    /// All messages up to the next one of this type, which is the last.
    pub fn until(&mut self, tag: char) -> Vec<Answer> {
        let mut answers = Vec::new();
        loop {
            answers.push(self.receive());
            if answers.last().is_some_and(|answer| answer.tag == tag) {
                return answers;
            }
        }
    }

    pub fn until_ready(&mut self) -> Vec<Answer> {
        self.until('Z')
    }

    /// Sends these messages, and gives all answers up to ReadyForQuery.
    pub fn ask(&mut self, bytes: &[u8]) -> Vec<Answer> {
        self.send(bytes);
        self.until_ready()
    }

    /// A simple query's rows.
    ///
    /// # Panics
    /// It fails.
    pub fn rows(&mut self, query: &str) -> Vec<Vec<Option<String>>> {
        let answers = self.ask(&message('Q', &[query.as_bytes(), b"\0"].concat()));
        if let Some(error) = answers.iter().find(|answer| answer.tag == 'E') {
            panic!("{query}: {:?} {:?}", error.field('C'), error.field('M'));
        }
        answers.iter().filter(|answer| answer.tag == 'D').map(Answer::values).collect()
    }

    /// A simple query's only value.
    pub fn value(&mut self, query: &str) -> String {
        self.rows(query).remove(0).remove(0).expect("it is not null")
    }
}

/// The types of these messages in their order.
pub fn tags(answers: &[Answer]) -> String {
    answers.iter().map(|answer| answer.tag).collect()
}

/// The SQLSTATEs of the errors among these messages.
pub fn errors(answers: &[Answer]) -> Vec<String> {
    answers.iter().filter(|answer| answer.tag == 'E').filter_map(|answer| answer.field('C')).collect()
}
