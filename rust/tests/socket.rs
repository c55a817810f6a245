// SPDX-License-Identifier: GPL-2.0 OR MIT
//! On a kernel with mpa: "cargo test", or selftests/tools/mpa_rust.sh in a guest.

use mpa::{Code, Connection, Error, Listener, Role, Start};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

fn pair_with(initiator: Start, responder: &Start) -> (Connection, Connection) {
    let listener = Listener::bind_with("127.0.0.1:0", responder).unwrap();
    let at = listener.local_addr().unwrap();
    let client = thread::spawn(move || mpa::connect_with(at, &initiator).unwrap());
    let end = listener.accept().unwrap().0;
    (client.join().unwrap(), end)
}

fn pair() -> (Connection, Connection) {
    pair_with(Start::default(), &Start::default())
}

#[test]
fn records_go_both_ways() {
    let (client, server) = pair();
    client.send(b"hello").unwrap();
    client.send(&[7; mpa::ULPDU_MAX]).unwrap();
    assert_eq!(server.recv().unwrap().unwrap(), b"hello");
    assert_eq!(server.recv().unwrap().unwrap(), vec![7; mpa::ULPDU_MAX]);
    server.send(b"you").unwrap();
    assert_eq!(client.recv().unwrap().unwrap(), b"you");
    drop(client);
    assert_eq!(server.recv().unwrap(), None);
}

#[test]
fn records_know_where_they_lie() {
    let (client, server) = pair();
    client.send(b"0123").unwrap();
    client.send(b"4").unwrap();
    let first = server.recv_record().unwrap().unwrap();
    assert_eq!(
        (first.position, first.order, first.placed),
        (0, Some(0), false)
    );
    // 2 octets of length, 4 of the record, 2 of pad, 4 of CRC
    let second = server.recv_record().unwrap().unwrap();
    assert_eq!((second.position, second.order), (12, Some(1)));
}

#[test]
fn startup_says_what_both_want() {
    let how = Start {
        markers: true,
        private_data: b"question".to_vec(),
        depths: Some((3, 4)),
        timeout: Some(Duration::from_secs(20)),
        ..Start::default()
    };
    let answer = Start {
        private_data: b"answer".to_vec(),
        depths: Some((4, 3)),
        ..Start::default()
    };
    let (client, server) = pair_with(how, &answer);
    client.send(b"x").unwrap();
    server.recv().unwrap();
    assert_eq!(client.peer().unwrap().private_data, b"answer");
    assert_eq!(server.peer().unwrap().private_data, b"question");
    assert!(server.peer().unwrap().markers);
    let info = client.info().unwrap();
    assert_eq!((info.revision, info.ird, info.ord), (2, 3, 4));
    assert!(info.markers_received && !info.markers_sent && info.crcs);
    assert_eq!((info.records_sent, info.octets_sent), (1, 1));
}

#[test]
fn a_send_is_cut_into_segments() {
    let (client, server) = pair();
    client.set_segment(1000).unwrap();
    client.send(&[1; 2500]).unwrap();
    let lengths: Vec<usize> = (0..3)
        .map(|_| server.recv().unwrap().unwrap().len())
        .collect();
    assert_eq!(lengths, [1000, 1000, 500]);
    client.set_packing(false).unwrap();
    client.set_segment(mpa::SEGMENT_OFF).unwrap();
    client.set_oversize(false).unwrap();
    let mulpdu = client.info().unwrap().mulpdu as usize;
    if mulpdu < mpa::ULPDU_MAX {
        let error = client.send(&vec![0; mulpdu + 1]).unwrap_err();
        assert!(matches!(error, Error::LongRecord(_)), "{error:?}");
    }
    assert!(matches!(client.send(b""), Err(Error::LongRecord(_))));
}

#[test]
fn placing_needs_markers() {
    let (client, server) = pair();
    assert!(client.set_place(true).is_err());
    drop((client, server));
    let (client, _server) = pair_with(
        Start {
            markers: true,
            ..Start::default()
        },
        &Start::default(),
    );
    client.set_place(true).unwrap();
}

#[test]
fn waiting_ends() {
    let (client, _server) = pair();
    client
        .set_recv_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let error = client.recv().unwrap_err();
    assert!(matches!(error, Error::Timeout(_)), "{error:?}");
    assert_eq!(error.to_string(), "timed out");
}

#[test]
fn nobody_listens() {
    let at = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    assert!(matches!(mpa::connect(at), Err(Error::Refused(_))));
}

#[test]
fn a_silent_peer_takes_as_long_as_the_caller_says() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let how = Start {
        timeout: Some(Duration::from_millis(200)),
        ..Start::default()
    };
    let error = mpa::connect_with(listener.local_addr().unwrap(), &how).unwrap_err();
    assert!(matches!(error, Error::Timeout(_)), "{error:?}");
}

/// A peer that sends these octets after a valid reply
fn peer(octets: &'static [u8]) -> Connection {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut sock, _) = listener.accept().unwrap();
        sock.read_exact(&mut [0; 20]).unwrap();
        sock.write_all(b"MPA ID Rep Frame\x40\x01\x00\x00").unwrap();
        // The initiator sends first: an FPDU of one octet.
        sock.read_exact(&mut [0; 8]).unwrap();
        sock.write_all(octets).unwrap();
    });
    let conn = mpa::connect(at).unwrap();
    conn.send(b"1").unwrap();
    conn
}

#[test]
fn damage_is_reported() {
    match peer(b"\x00\x02ab\x00\x00\x00\x00").recv() {
        Err(Error::Damaged(_, Code::Crc)) => (),
        other => panic!("{other:?}"),
    }
    let error = peer(b"\x00\x02a").recv().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the peer's stream ended inside a record"
    );
}

#[test]
fn what_is_not_mpa_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let ssh = thread::spawn(move || {
        let mut sock = listener.accept().unwrap().0;
        // Octets that precede the request are another error: EBUSY.
        sock.read_exact(&mut [0; 20]).unwrap();
        sock.write_all(b"SSH-2.0-something that is long enough\r\n")
            .unwrap();
        sock.read(&mut [0; 1000])
    });
    assert!(matches!(mpa::connect(at), Err(Error::NotMpa(_))));
    let _ = ssh.join().unwrap();
}

#[test]
fn a_socket_of_ones_own_is_started() {
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let at = listener.local_addr().unwrap();
    let client = thread::spawn(move || {
        mpa::start(
            TcpStream::connect(at).unwrap(),
            Role::Direct,
            &Start::default(),
        )
        .unwrap()
    });
    let server = mpa::start(
        listener.accept().unwrap().0,
        Role::Direct,
        &Start::default(),
    )
    .unwrap();
    let client = client.join().unwrap();
    client.send(b"directly").unwrap();
    assert_eq!(server.recv().unwrap().unwrap(), b"directly");
}

#[test]
fn private_data_has_a_limit() {
    let how = Start {
        private_data: vec![0; mpa::PRIVATE_DATA_MAX + 1],
        ..Start::default()
    };
    assert!(Listener::bind_with("127.0.0.1:0", &how).is_err());
}
