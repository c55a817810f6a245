// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Records on TCP: Linux's MPA (RFC 5044), on std alone.
//!
//! ```no_run
//! # fn main() -> mpa::Result<()> {
//! let conn = mpa::connect("localhost:4242")?;
//! conn.send(b"hello")?;               // one record out
//! println!("{:?}", conn.recv()?);     // one record in, None at the end
//! # Ok(()) }
//! ```
//!
//! ```no_run
//! # fn main() -> mpa::Result<()> {
//! let listener = mpa::Listener::bind("[::]:4242")?;
//! let (conn, peer) = listener.accept()?;
//! # Ok(()) }
//! ```
//!
//! Records have 1 to 64768 octets. A damaged one is never returned: `recv` fails with
//! [`Error::Damaged`]. Private data, markers and depths of RDMA Reads are in [`Start`].
//! Threads may share a connection: records stay whole. The kernel module mpa is needed.

mod error;
mod sys;

pub use error::{Code, Error, Result};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::io::{AsRawFd, FromRawFd, RawFd};
use std::time::Duration;

/// Maximum length of a record.
pub const ULPDU_MAX: usize = 64768;
/// Maximum length of private data.
pub const PRIVATE_DATA_MAX: usize = 512;
/// For [`Connection::set_segment`]: one send is one record.
pub const SEGMENT_OFF: i32 = -1;
/// For [`Connection::set_segment`]: a send is split into records that fill segments.
pub const SEGMENT_FILL: i32 = 0;

/// The role of a socket in startup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Initiator = 1,
    Responder = 2,
    /// Without startup frames
    Direct = 3,
}

/// How to start MPA; `Start::default()` suits most programs.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// 1: RFC 5044, 2: RFC 6581; None: the role's default
    pub revision: Option<u8>,
    /// Request markers from the peer; [`Connection::set_place`] needs them.
    pub markers: bool,
    /// This end does not need CRCs.
    pub no_crc: bool,
    /// Private data for the peer's program
    pub private_data: Vec<u8>,
    /// IRD and ORD to negotiate (revision 2)
    pub depths: Option<(u16, u16)>,
    /// Timeout of startup; None: the administrator's setting
    pub timeout: Option<Duration>,
}

fn flag(on: bool, flag: u32) -> u32 {
    if on {
        flag
    } else {
        0
    }
}

impl Start {
    fn raw(&self, role: Role) -> Result<sys::Start> {
        if self.private_data.len() > PRIVATE_DATA_MAX {
            return Err(Error::from_errno(sys::EINVAL, Code::None));
        }
        let two = role == Role::Responder || self.depths.is_some();
        let (ird, ord) = self.depths.unwrap_or((0, 0));
        let mut raw = sys::Start {
            role: role as u8,
            revision: self.revision.unwrap_or(if two { 2 } else { 1 }),
            private_len: self.private_data.len() as u16,
            flags: flag(self.markers, sys::START_MARKERS)
                | flag(self.no_crc, sys::START_NO_CRC)
                | flag(
                    role == Role::Initiator && self.depths.is_some(),
                    sys::START_ENHANCED,
                ),
            ird,
            ord,
            // 0 would mean the administrator's setting.
            timeout_ms: self
                .timeout
                .map_or(0, |t| t.as_millis().clamp(1, 3_600_000) as u32),
            reserved: [0; 4],
            private_data: [0; PRIVATE_DATA_MAX],
        };
        raw.private_data[..self.private_data.len()].copy_from_slice(&self.private_data);
        Ok(raw)
    }
}

/// State and parameters of a connection: MPA_INFO.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    pub revision: u8,
    pub code: Code,
    pub markers_sent: bool,
    pub markers_received: bool,
    pub crcs: bool,
    pub emss: u32,
    pub mulpdu: u32,
    pub ird: u16,
    pub ord: u16,
    pub records_sent: u64,
    pub octets_sent: u64,
    pub records_received: u64,
    pub octets_received: u64,
}

/// The content of the peer's startup frame.
#[derive(Clone, Debug)]
pub struct Peer {
    pub revision: u8,
    pub markers: bool,
    pub crc: bool,
    pub ird: u16,
    pub ord: u16,
    pub private_data: Vec<u8>,
}

/// A record and its place in the peer's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub octets: Vec<u8>,
    pub position: u64,
    /// The number of earlier records; None if octets before it are missing
    pub order: Option<u64>,
    /// Octets before it have not arrived: see [`Connection::set_place`].
    pub placed: bool,
}

/// Attaches MPA to your own TCP connection, and starts it.
pub fn start(stream: TcpStream, role: Role, how: &Start) -> Result<Connection> {
    let raw = how.raw(role)?;
    sys::attach(stream.as_raw_fd())?;
    sys::set(stream.as_raw_fd(), sys::MPA_START, &raw)?;
    Ok(Connection { stream })
}

/// Connects to an address, and starts MPA as the initiator.
pub fn connect<A: ToSocketAddrs>(address: A) -> Result<Connection> {
    connect_with(address, &Start::default())
}

/// As connect(). A timeout also applies to TCP, for each address.
pub fn connect_with<A: ToSocketAddrs>(address: A, how: &Start) -> Result<Connection> {
    let stream = match how.timeout {
        None => TcpStream::connect(address)?,
        Some(timeout) => {
            let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
            address
                .to_socket_addrs()?
                .find_map(|each| match TcpStream::connect_timeout(&each, timeout) {
                    Ok(stream) => Some(stream),
                    Err(error) => {
                        last = error;
                        None
                    }
                })
                .ok_or(last)?
        }
    };
    stream.set_nodelay(true)?;
    start(stream, Role::Initiator, how)
}

/// A connection; an accepted one may still be in startup.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
}

impl Connection {
    /// Sends a record.
    pub fn send(&self, record: &[u8]) -> Result<()> {
        let sent = self.told(sys::send(self.stream.as_raw_fd(), record))?;
        // With set_segment() a send may accept only a part.
        if sent < record.len() {
            return self.send(&record[sent..]);
        }
        Ok(())
    }

    /// The next record; None: the peer has closed after a complete record.
    pub fn recv(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.recv_record()?.map(|record| record.octets))
    }

    /// The next record and its place in the stream.
    pub fn recv_record(&self) -> Result<Option<Record>> {
        let fd = self.stream.as_raw_fd();
        let on: i32 = self.told(sys::get(fd, sys::MPA_RECVINFO))?;
        if on == 0 {
            self.set(sys::MPA_RECVINFO, 1)?;
        }
        let mut octets = vec![0; ULPDU_MAX];
        let mut info = sys::RecvInfo::default();
        let len = self.told(sys::receive(fd, &mut octets, &mut info))?;
        octets.truncate(len);
        Ok((len > 0).then(|| Record {
            octets,
            position: info.position,
            order: (info.valid & sys::VALID_ORDER != 0).then_some(info.order),
            placed: info.flags & sys::PLACED != 0,
        }))
    }

    /// Sets how a send is split into records: SEGMENT_OFF, SEGMENT_FILL, or octets in
    /// each.
    pub fn set_segment(&self, octets: i32) -> Result<()> {
        self.set(sys::MPA_SEGMENT, octets)
    }

    /// Sets whether short records may share a segment.
    pub fn set_packing(&self, on: bool) -> Result<()> {
        self.set(sys::MPA_PACKING, i32::from(on))
    }

    /// Sets whether a record may be longer than [`Info::mulpdu`].
    pub fn set_oversize(&self, on: bool) -> Result<()> {
        self.set(sys::MPA_OVERSIZE, i32::from(on))
    }

    /// Sets whether records are received out of order.
    pub fn set_place(&self, on: bool) -> Result<()> {
        self.set(sys::MPA_PLACE, i32::from(on))
    }

    /// Sets the timeout of recv(); None: no limit.
    pub fn set_recv_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        Ok(self.stream.set_read_timeout(timeout)?)
    }

    /// Sets the timeout of send(); None: no limit.
    pub fn set_send_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        Ok(self.stream.set_write_timeout(timeout)?)
    }

    pub fn info(&self) -> Result<Info> {
        let raw: sys::Info = sys::get(self.stream.as_raw_fd(), sys::MPA_INFO)?;
        Ok(Info {
            revision: raw.revision,
            code: Code::from(raw.error),
            markers_sent: raw.flags & sys::INFO_TX_MARKERS != 0,
            markers_received: raw.flags & sys::INFO_RX_MARKERS != 0,
            crcs: raw.flags & sys::INFO_CRC == sys::INFO_CRC,
            emss: raw.emss,
            mulpdu: raw.mulpdu,
            ird: raw.ird,
            ord: raw.ord,
            records_sent: raw.tx_ulpdus,
            octets_sent: raw.tx_octets,
            records_received: raw.rx_ulpdus,
            octets_received: raw.rx_octets,
        })
    }

    pub fn peer(&self) -> Result<Peer> {
        let raw: sys::Peer = sys::get(self.stream.as_raw_fd(), sys::MPA_PEER)?;
        Ok(Peer {
            revision: raw.revision,
            markers: raw.flags & sys::PEER_MARKERS != 0,
            crc: raw.flags & sys::PEER_CRC != 0,
            ird: raw.ird,
            ord: raw.ord,
            private_data: raw.private_data[..usize::from(raw.private_len)].to_vec(),
        })
    }

    /// The socket: for addresses, shutdown and options of TCP.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn set(&self, option: i32, value: i32) -> Result<()> {
        self.told(sys::set(self.stream.as_raw_fd(), option, &value))
    }

    /// Combine a failure's errno with MPA's error code.
    fn told<T>(&self, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| {
            let code = match sys::get::<sys::Info>(self.stream.as_raw_fd(), sys::MPA_INFO) {
                Ok(info) => Code::from(info.error),
                Err(_) => Code::None,
            };
            Error::from_io(error, code)
        })
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

/// A listening socket; accepted connections start as responders.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
}

impl Listener {
    pub fn bind<A: ToSocketAddrs>(address: A) -> Result<Listener> {
        Listener::bind_with(address, &Start::default())
    }

    /// Listens on the first available address.
    pub fn bind_with<A: ToSocketAddrs>(address: A, how: &Start) -> Result<Listener> {
        let raw = how.raw(Role::Responder)?;
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for each in address.to_socket_addrs()? {
            match sys::listen(&each, &raw) {
                // SAFETY: the socket has no other owner.
                Ok(fd) => {
                    return Ok(Listener {
                        listener: unsafe { TcpListener::from_raw_fd(fd) },
                    })
                }
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }

    /// Accepts the next connection. Its first recv() waits for the peer's request.
    pub fn accept(&self) -> Result<(Connection, SocketAddr)> {
        let (stream, peer) = self.listener.accept()?;
        Ok((Connection { stream }, peer))
    }

    pub fn local_addr(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}
