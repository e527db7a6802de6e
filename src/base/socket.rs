//! The interface to local sockets, through which a database and its follower communicate.
//!
//! A connection carries frames: a length of 4 bytes, and that many bytes. An incomplete frame is not
//! returned. The listening side never waits in here: what cannot be sent or received now is left for later.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Only the owner may connect.
const SOCKET_MODE: u32 = 0o600;
/// A longer frame is not one of the engine's.
const FRAME_BYTES_MAX: usize = 64 << 20;
const LENGTH_BYTES: usize = 4;
/// Bytes that are read at once.
const READ_BYTES: usize = if cfg!(test) { 7 } else { 256 << 10 };

/// A socket that others connect to; its name is removed when it is dropped.
pub(crate) struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Makes a socket of this name. One that a killed process has left is replaced, and nothing else.
    pub(crate) fn bind(path: &Path) -> io::Result<Listener> {
        remove_abandoned(path)?;
        // It has its final name only when no other thread may connect any more.
        let mut new = path.as_os_str().to_owned();
        new.push(".tmp");
        let new = PathBuf::from(new);
        remove_abandoned(&new)?;
        let socket = UnixListener::bind(&new)?;
        let named = fs::set_permissions(&new, fs::Permissions::from_mode(SOCKET_MODE))
            .and_then(|()| socket.set_nonblocking(true))
            .and_then(|()| fs::rename(&new, path));
        if let Err(error) = named {
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        Ok(Listener { socket, path: path.to_path_buf() })
    }

    /// A new connection, if there is one.
    pub(crate) fn accept(&self) -> io::Result<Option<Connection>> {
        match self.socket.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                Ok(Some(Connection::new(stream)))
            }
            Err(error) if is_not_now(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Should it stay, no process answers there, and the next one replaces it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a socket that no process listens at.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let kind = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !kind.is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// Returns true if the error means only that nothing can be done at this moment.
fn is_not_now(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// One end of a connection.
pub(crate) struct Connection {
    stream: UnixStream,
    outgoing: Vec<u8>,
    /// Bytes of `outgoing` that are sent.
    sent: usize,
    incoming: Vec<u8>,
    /// Bytes of `incoming` that were given out.
    taken: usize,
}

impl Connection {
    fn new(stream: UnixStream) -> Connection {
        Connection { stream, outgoing: Vec::new(), sent: 0, incoming: Vec::new(), taken: 0 }
    }

    /// Connects to the process that listens there. Sending and receiving time out after `timeout`.
    pub(crate) fn to(path: &Path, timeout: Duration) -> io::Result<Connection> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Connection::new(stream))
    }

    /// Puts a frame behind what is to be sent.
    pub(crate) fn put(&mut self, frame: &[u8]) {
        self.outgoing.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        self.outgoing.extend_from_slice(frame);
    }

    /// Number of bytes that are still to be sent.
    pub(crate) fn unsent(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Sends the bytes that can be sent now; returns true if there were any.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn send(&mut self) -> io::Result<bool> {
        let before = self.sent;
        while self.unsent() > 0 {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if is_not_now(&error) => break,
                Err(error) => return Err(error),
            }
        }
        let moved = self.sent > before;
        // The sent part is removed although something is left: a receiver that is always behind would have all of it kept.
        if self.sent * 2 >= self.outgoing.len() {
            self.outgoing.drain(..self.sent);
            self.sent = 0;
        }
        Ok(moved)
    }

    /// The next frame, if it is there whole.
    ///
    /// # Errors
    /// The connection is broken, or its other end is gone (`UnexpectedEof`); a frame is longer than the engine sends.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(frame) = self.take_frame()? {
                return Ok(Some(frame));
            }
            let held = self.incoming.len();
            self.incoming.resize(held + READ_BYTES, 0);
            let read = self.stream.read(&mut self.incoming[held..]);
            self.incoming.truncate(held + read.as_ref().map_or(0, |count| *count));
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if is_not_now(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn take_frame(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((length, rest)) = self.incoming[self.taken..].split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Some(frame) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        self.taken += LENGTH_BYTES + length;
        if self.taken * 2 >= self.incoming.len() {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind::{AddrInUse, AlreadyExists, InvalidData, NotFound, UnexpectedEof};

    fn connected(path: &Path) -> (Listener, Connection, Connection) {
        let listener = Listener::bind(path).unwrap();
        let far = Connection::to(path, Duration::from_secs(10)).unwrap();
        let near = listener.accept().unwrap().expect("there is a connection");
        (listener, near, far)
    }

    #[test]
    fn frames_arrive_whole_and_in_order_and_nobody_waits_for_them() {
        let place = tempfile::tempdir().unwrap();
        let (_listener, mut near, mut far) = connected(&place.path().join("socket"));
        assert_eq!(near.receive().unwrap(), None);
        let frames = [vec![], b"x".to_vec(), vec![7; 10_000], b"last".to_vec()];
        frames.iter().for_each(|frame| far.put(frame));
        while far.unsent() > 0 {
            far.send().unwrap();
        }
        for frame in &frames {
            assert_eq!(near.receive().unwrap().as_ref(), Some(frame));
        }
        // The other side does not read: more than the system buffers stays here.
        near.put(&vec![1; 8 << 20]);
        assert!(near.send().unwrap() && near.unsent() > 0);
        drop(far);
        assert!(near.send().is_err());
    }

    #[test]
    fn what_was_sent_is_not_kept_for_one_who_is_always_behind() {
        const UNSENT: usize = 1 << 20;
        let place = tempfile::tempdir().unwrap();
        let (_listener, mut near, mut far) = connected(&place.path().join("socket"));
        let frame: Vec<u8> = (0..60_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        let (mut put, mut heard) = (0, Vec::new());
        let mut hear = |heard: &mut Vec<u8>, bytes: usize| {
            let before = heard.len();
            heard.resize(before + bytes, 0);
            far.stream.read_exact(&mut heard[before..]).unwrap();
        };
        for _ in 0..64 {
            while near.unsent() < UNSENT {
                near.put(&frame);
                put += 1;
            }
            near.send().unwrap();
            hear(&mut heard, 128 << 10);
            assert!(near.unsent() > 0, "it is behind");
            assert!(near.outgoing.len() < 4 * UNSENT, "{} bytes are kept", near.outgoing.len());
        }
        // All of it arrives all the same.
        let all = [&60_000_u32.to_le_bytes()[..], &frame].concat().repeat(put);
        while heard.len() < all.len() {
            near.send().unwrap();
            let under_way = all.len() - near.unsent() - heard.len();
            hear(&mut heard, under_way.min(64 << 10));
        }
        assert!(heard == all, "it came as it was sent");
    }

    #[test]
    fn half_a_frame_is_none_and_a_frame_that_is_too_long_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (_listener, mut near, mut far) = connected(&place.path().join("socket"));
        far.stream.write_all(&[9, 0, 0, 0, 1, 2]).unwrap();
        assert_eq!(near.receive().unwrap(), None);
        drop(far);
        assert_eq!(near.receive().unwrap_err().kind(), UnexpectedEof);
        let (_listener, mut near, mut far) = connected(&place.path().join("other"));
        far.stream.write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(near.receive().unwrap_err().kind(), InvalidData);
    }

    #[test]
    fn a_name_is_taken_only_from_the_dead_and_goes_with_its_owner() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let first = Listener::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, SOCKET_MODE);
        assert_eq!(Listener::bind(&path).err().unwrap().kind(), AddrInUse);
        drop(first);
        assert!(!path.exists());
        assert_eq!(Connection::to(&path, Duration::from_secs(1)).err().unwrap().kind(), NotFound);
        // As a process leaves it that is killed.
        drop(UnixListener::bind(&path).unwrap());
        drop(Listener::bind(&path).unwrap());
        fs::write(&path, "a user's file").unwrap();
        assert_eq!(Listener::bind(&path).err().unwrap().kind(), AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"a user's file");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing else is left");
    }
}
