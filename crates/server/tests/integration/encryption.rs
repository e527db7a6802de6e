//! TLS and client certificates: what is encrypted, who is let in by a certificate, and what is refused.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::skips;
use crate::support::Running;
use crate::support::wire::{Wire, errors, first, open, run, sync, tags};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const SSL_REQUEST: u32 = 80_877_103;

type Encrypted = Wire<StreamOwned<ClientConnection, TcpStream>>;

/// An authority, and certificates that it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are right");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// A certificate and its key, as PEM.
    fn sign(&self, common_name: &str) -> (String, String) {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("the names are right");
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }
}

/// A directory of this test's own, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: numbers need only differ.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("heddle-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server with a certificate of this authority, whose clients show certificates of the same where the rules ask for it.
fn serve(authority: &Authority, directory: &Directory, rules: &str) -> Running {
    let (certificate, key) = authority.sign("server");
    let lines = [
        ("tls_certificate", directory.write("server.pem", &certificate)),
        ("tls_key", directory.write("server.key", &key)),
        ("tls_client_ca", directory.write("ca.pem", &authority.pem())),
    ];
    let lines: Vec<String> = lines.iter().map(|(name, path)| format!("{name} = '{path}'")).collect();
    let running = Running::with(&format!("{}\n{rules}", lines.join("\n")));
    let users = running.server.users().expect("a database is served");
    users.add("ada", "a password that is not asked for", true).expect("added");
    running
}

const BY_CERTIFICATE: &str = "[[host]]\naddress = 'all'\nmethod = 'certificate'";

fn encrypted(running: &Running, authority: &Authority, own: Option<(String, String)>) -> Encrypted {
    let mut socket = open(running.port());
    socket.write_all(&first(SSL_REQUEST, b"")).expect("sent");
    let mut answer = [0];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"S");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(chain, key).expect("they belong together")
        }
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    Wire { socket: StreamOwned::new(connection, socket) }
}

#[test]
fn a_certificate_lets_in_the_user_that_it_names() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let running = serve(&authority, &directory, BY_CERTIFICATE);
    let mut wire = encrypted(&running, &authority, Some(authority.sign("ada")));
    assert_eq!(errors(&wire.start("ada")), Vec::<String>::new());
    let large = wire.value("SELECT repeat('x', 300000)");
    assert_eq!(large.len(), 300_000);
    let long = "y".repeat(200_000);
    let answers = wire.ask(&[run("SELECT length($1)", &[&long]), sync()].concat());
    assert_eq!((tags(&answers), answers[2].values()[0].as_deref()), ("12DCZ".to_owned(), Some("200000")));
}

#[test]
fn other_certificates_and_none_are_refused() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let running = serve(&authority, &directory, BY_CERTIFICATE);
    let refused = |own, user: &str| errors(&encrypted(&running, &authority, own).start(user));
    assert_eq!(refused(Some(authority.sign("bob")), "ada"), ["28000"], "it names another user");
    assert_eq!(refused(Some(authority.sign("bob")), "bob"), ["28000"], "there is no such user");
    assert_eq!(refused(None, "ada"), ["28000"]);
    let stranger = Authority::new().sign("ada");
    let mut wire = encrypted(&running, &authority, Some(stranger));
    let startup = first(0x0003_0000, b"user\0ada\0\0");
    let sent = wire.socket.write_all(&startup).and_then(|()| wire.socket.flush());
    let ended = sent.is_err() || wire.try_receive().is_none();
    assert!(ended, "a certificate of an unknown authority ends the handshake");
    let mut plain = Wire { socket: open(running.port()) };
    assert_eq!(errors(&plain.start("ada")), ["28000"], "without TLS there is no certificate");
}

#[test]
fn bytes_that_come_before_the_handshake_are_refused() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let running = serve(&authority, &directory, BY_CERTIFICATE);
    let mut wire = Wire { socket: open(running.port()) };
    let smuggled = [first(SSL_REQUEST, b""), first(0x0003_0000, b"user\0ada\0\0")].concat();
    wire.send(&smuggled);
    let answer = wire.receive();
    assert_eq!((answer.tag, answer.field('C')), ('E', Some("08P01".to_owned())));
    assert_eq!(wire.try_receive(), None);
}

#[test]
fn psql_verifies_the_server_and_shows_its_certificate() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let running = serve(&authority, &directory, BY_CERTIFICATE);
    let (certificate, key) = authority.sign("ada");
    let (certificate, key) = (directory.write("ada.pem", &certificate), directory.write("ada.key", &key));
    let _ = Command::new("chmod").args(["600", &key]).status();
    let root = directory.0.join("ca.pem");
    let conninfo = |certificate: &str, key: &str| {
        format!(
            "host=localhost hostaddr=127.0.0.1 port={} user=ada dbname=heddle sslmode=verify-full sslrootcert={} \
             sslcert={certificate} sslkey={key}",
            running.port(),
            root.display()
        )
    };
    let shown = "SELECT current_user, ssl, version LIKE 'TLSv1._', cipher LIKE 'TLS%', bits >= 128 FROM pg_stat_ssl \
                 WHERE pid = pg_backend_pid()";
    let ask = |conninfo: &str| Command::new("psql").args([conninfo, "-XAtc", shown]).output();
    let Ok(output) = ask(&conninfo(&certificate, &key)) else {
        return skips::skip("psql", "psql is not installed");
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.trim(), "ada|t|t|t|t", "{}", String::from_utf8_lossy(&output.stderr));
    let shown =
        "SELECT version, cipher LIKE 'ECDHE-%', bits >= 128 FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let old = format!("{} ssl_max_protocol_version=TLSv1.2", conninfo(&certificate, &key));
    let output = Command::new("psql").args([&old, "-XAtc", shown]).output().expect("psql starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.trim(), "TLSv1.2|t|t", "{}", String::from_utf8_lossy(&output.stderr));
    let without = ask(&conninfo("", "")).expect("psql starts");
    assert!(!without.status.success(), "a certificate is asked for");
}

#[test]
fn psql_binds_its_password_to_the_connection() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let running = serve(&authority, &directory, "");
    let users = running.server.users().expect("it serves");
    users.add("bob", "pencil", false).expect("a new user");
    let ask = |password: &str, others: &str| {
        let conninfo = format!(
            "host=127.0.0.1 port={} user=bob dbname=heddle password={password} {others}",
            running.port()
        );
        Command::new("psql").args([&conninfo, "-XAtc", "SELECT current_user"]).output()
    };
    let required = "channel_binding=require sslmode=require";
    let Ok(output) = ask("pencil", required) else {
        return skips::skip("psql", "there is no psql");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "bob");
    let error = |output: std::io::Result<std::process::Output>| {
        String::from_utf8_lossy(&output.expect("psql starts").stderr).into_owned()
    };
    assert!(error(ask("pen", required)).contains("password authentication failed"));
    assert_eq!(error(ask("pencil", "channel_binding=disable sslmode=require")), "");
    assert_eq!(error(ask("pencil", "channel_binding=prefer sslmode=disable")), "");
}

#[test]
fn psql_connects_from_a_terminal_in_any_encoding() {
    let running = Running::start();
    for (encoding, shown) in
        [("SQL_ASCII", &b"\xc3\xbc\n"[..]), ("LATIN1", b"\xfc\n"), ("WIN1252", b"\xfc\n")]
    {
        let conninfo = format!("host=127.0.0.1 port={} user=ada dbname=heddle", running.port());
        let mut command = Command::new("psql");
        command.args([&conninfo, "-XAtc", "SELECT U&'\\00fc'"]).env("PGCLIENTENCODING", encoding);
        let Ok(output) = command.output() else {
            return skips::skip("psql", "there is no psql");
        };
        assert_eq!(output.stdout, shown, "{encoding}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut command = Command::new("psql");
    command.args([
        &format!("host=127.0.0.1 port={} user=ada dbname=heddle", running.port()),
        "-XAtc",
        "SELECT 1",
    ]);
    let output = command.env("PGCLIENTENCODING", "EUC_TW").output().expect("psql starts");
    assert!(String::from_utf8_lossy(&output.stderr).contains("EUC_TW"), "the refusal says why");
}
