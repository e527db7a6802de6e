//! Messages that arrive in pieces, lengths that lie, deadlines and wake-ups.

use std::net::TcpListener;

use super::*;

#[test]
fn suites_have_the_names_of_openssl() {
    let names: Vec<String> =
        rustls::crypto::ring::ALL_CIPHER_SUITES.iter().map(|suite| openssl_name(suite.suite())).collect();
    let expected = [
        "TLS_AES_256_GCM_SHA384",
        "TLS_AES_128_GCM_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
    ];
    assert_eq!(names, expected);
}

fn pair(limit: usize) -> (TcpStream, Transport) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let (server, _) = listener.accept().expect("the client is there");
    (client, Transport::new(server, limit).expect("descriptors are free"))
}

#[test]
fn messages_are_read_whole_however_they_arrive() {
    let (mut client, mut transport) = pair(1 << 20);
    let large = [b"d".as_slice(), &(100_004_u32).to_be_bytes(), &vec![7; 100_000]].concat();
    let sender = std::thread::spawn(move || {
        for chunk in [b"Q\0\0", b"\0\x06a".as_slice(), b"\0S\0\0\0\x04"].into_iter().chain(large.chunks(999))
        {
            client.write_all(chunk).expect("the server reads");
        }
        client
    });
    let query = transport.read_message(None).expect("a query");
    assert_eq!((query.tag, transport.body(query)), (b'Q', &b"a\0"[..]));
    assert_eq!(transport.read_message(None).expect("a sync").tag, b'S');
    let data = transport.read_message(None).expect("data");
    assert_eq!(transport.body(data), vec![7; 100_000]);
    drop(sender.join());
    assert!(matches!(transport.read_message(None), Err(ReadError::Closed)));
}

#[test]
fn a_length_that_lies_is_refused_before_it_is_believed() {
    for length in [0_u32, 3, u32::MAX, 0x7fff_ffff, (1 << 20) + 1] {
        let (mut client, mut transport) = pair(1 << 20);
        client.write_all(&[&b"Q"[..], &length.to_be_bytes()].concat()).expect("the server reads");
        assert!(matches!(transport.read_message(None), Err(ReadError::Protocol(_))), "{length}");
        assert!(transport.input.capacity() < 1 << 20, "{length}");
    }
}

#[test]
fn an_unknown_type_is_refused_whatever_its_length_says() {
    let (mut client, mut transport) = pair(1 << 20);
    client.write_all(b"GET / HTTP/1.1\r\n").expect("the server reads");
    assert!(matches!(transport.read_message(None), Err(ReadError::Protocol(_))));
}

#[test]
fn waiting_ends_at_the_deadline_or_when_another_thread_wakes_it() {
    let (_client, mut transport) = pair(1 << 20);
    assert!(matches!(transport.read_message(Some(Instant::now())), Err(ReadError::TimedOut)));
    transport.waker().wake();
    assert!(matches!(transport.read_message(None), Err(ReadError::Woken)));
    assert!(matches!(transport.read_message(Some(Instant::now())), Err(ReadError::TimedOut)), "once only");
}
