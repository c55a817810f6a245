// SPDX-License-Identifier: GPL-2.0 OR MIT
//! System calls that std does not have. Numbers and structs are those of
//! linux/mpa.h; a test compares them with the header.

use std::io;
use std::mem::{size_of, MaybeUninit};
use std::net::SocketAddr;
use std::os::raw::{c_int, c_uint, c_void};
use std::os::unix::io::RawFd;

const SOL_MPA: c_int = 289;
const IPPROTO_TCP: c_int = 6;
const TCP_NODELAY: c_int = 1;
const TCP_ULP: c_int = 31;

pub const MPA_START: c_int = 1;
pub const MPA_INFO: c_int = 2;
pub const MPA_PEER: c_int = 3;
pub const MPA_SEGMENT: c_int = 7;
pub const MPA_PACKING: c_int = 8;
pub const MPA_OVERSIZE: c_int = 9;
pub const MPA_RECVINFO: c_int = 11;
pub const MPA_PLACE: c_int = 13;

pub const START_MARKERS: u32 = 1;
pub const START_NO_CRC: u32 = 1 << 1;
pub const START_ENHANCED: u32 = 1 << 4;

pub const INFO_TX_MARKERS: u32 = 1;
pub const INFO_RX_MARKERS: u32 = 1 << 1;
pub const INFO_CRC: u32 = 3 << 2;

pub const PEER_MARKERS: u8 = 0x80;
pub const PEER_CRC: u8 = 0x40;

pub const PLACED: u32 = 1 << 1;
pub const VALID_ORDER: u32 = 1;

// The numbers of the generic ABI: x86, arm64, s390x, riscv.
pub const ENOENT: i32 = 2;
pub const EAGAIN: i32 = 11;
pub const EINVAL: i32 = 22;
pub const EPIPE: i32 = 32;
pub const EPROTO: i32 = 71;
pub const EBADMSG: i32 = 74;
pub const EMSGSIZE: i32 = 90;
pub const EOPNOTSUPP: i32 = 95;
pub const ECONNRESET: i32 = 104;
pub const ENOBUFS: i32 = 105;
pub const ETIMEDOUT: i32 = 110;
pub const ECONNREFUSED: i32 = 111;

const MSG_NOSIGNAL: c_int = 0x4000;
const AF_INET: c_int = 2;
const AF_INET6: c_int = 10;
const SOCK_STREAM: c_int = 1;
const SOCK_CLOEXEC: c_int = 0o2000000;
const SOL_SOCKET: c_int = 1;
const SO_REUSEADDR: c_int = 2;
const BACKLOG: c_int = 1024;

#[repr(C)]
pub struct Start {
    pub role: u8,
    pub revision: u8,
    pub private_len: u16,
    pub flags: u32,
    pub ird: u16,
    pub ord: u16,
    pub timeout_ms: u32,
    pub reserved: [u32; 4],
    pub private_data: [u8; 512],
}

#[repr(C)]
pub struct Peer {
    pub revision: u8,
    pub flags: u8,
    pub private_len: u16,
    pub ird: u16,
    pub ord: u16,
    pub control: u32,
    pub reserved: [u32; 5],
    pub private_data: [u8; 512],
}

#[repr(C)]
pub struct Info {
    pub state: u8,
    pub role: u8,
    pub revision: u8,
    pub error: u8,
    pub flags: u32,
    pub emss: u32,
    pub mulpdu: u32,
    pub ird: u16,
    pub ord: u16,
    pub rtr: u32,
    pub tx_ulpdus: u64,
    pub tx_octets: u64,
    pub tx_markers: u64,
    pub rx_ulpdus: u64,
    pub rx_octets: u64,
    pub rx_markers: u64,
    pub tx_packets: u64,
    pub tx_segs_aligned: u64,
    pub tx_segs_unaligned: u64,
    pub rx_placed: u64,
    pub rx_edge: u64,
    pub error_position: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct RecvInfo {
    pub position: u64,
    pub order: u64,
    pub edge: u64,
    pub length: u32,
    pub offset: u32,
    pub flags: u32,
    pub valid: u32,
}

const _: () = assert!(size_of::<Start>() == 544 && size_of::<Peer>() == 544);
const _: () = assert!(size_of::<Info>() == 120 && size_of::<RecvInfo>() == 40);

/// Types for which all bit patterns are valid
pub trait Plain {}
impl Plain for Info {}
impl Plain for Peer {}
impl Plain for i32 {}

#[repr(C)]
struct IoVec {
    base: *mut c_void,
    len: usize,
}

// The layout of glibc and musl. They pad 32-bit fields to 64 bits; usize replaces both.
#[repr(C)]
struct MsgHdr {
    name: *mut c_void,
    namelen: c_uint,
    iov: *mut IoVec,
    iovlen: usize,
    control: *mut c_void,
    controllen: usize,
    flags: c_int,
}

/// The only control message that is requested
#[repr(C, align(8))]
struct Control {
    len: usize,
    level: c_int,
    kind: c_int,
    info: RecvInfo,
}

#[repr(C)]
struct SockAddrIn {
    family: u16,
    port: [u8; 2],
    addr: [u8; 4],
    zero: [u8; 8],
}

#[repr(C)]
struct SockAddrIn6 {
    family: u16,
    port: [u8; 2],
    flowinfo: u32,
    addr: [u8; 16],
    scope_id: u32,
}

// These are in the C library that std links.
extern "C" {
    fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn bind(fd: c_int, address: *const c_void, len: c_uint) -> c_int;
    #[link_name = "listen"]
    fn c_listen(fd: c_int, backlog: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    #[link_name = "send"]
    fn c_send(fd: c_int, octets: *const c_void, len: usize, flags: c_int) -> isize;
    fn recvmsg(fd: c_int, msg: *mut MsgHdr, flags: c_int) -> isize;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: c_uint)
        -> c_int;
    fn getsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut c_uint,
    ) -> c_int;
}

fn good(result: c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn set_at<T>(fd: RawFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the length is the slice's.
    good(unsafe {
        setsockopt(
            fd,
            level,
            name,
            (value as *const T).cast(),
            size_of::<T>() as c_uint,
        )
    })
}

pub fn attach(fd: RawFd) -> io::Result<()> {
    set_at(fd, IPPROTO_TCP, TCP_ULP, b"mpa\0")
}

pub fn set<T>(fd: RawFd, option: c_int, value: &T) -> io::Result<()> {
    set_at(fd, SOL_MPA, option, value)
}

pub fn get<T: Plain>(fd: RawFd, option: c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as c_uint;
    // SAFETY: the kernel writes at most len octets, and any octets are a valid T.
    unsafe {
        good(getsockopt(
            fd,
            SOL_MPA,
            option,
            value.as_mut_ptr().cast(),
            &mut len,
        ))?;
        Ok(value.assume_init())
    }
}

pub fn send(fd: RawFd, record: &[u8]) -> io::Result<usize> {
    // SAFETY: the length is the slice's.
    let sent = unsafe { c_send(fd, record.as_ptr().cast(), record.len(), MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

pub fn receive(fd: RawFd, octets: &mut [u8], info: &mut RecvInfo) -> io::Result<usize> {
    let mut iov = IoVec {
        base: octets.as_mut_ptr().cast(),
        len: octets.len(),
    };
    let mut control = Control {
        len: 0,
        level: 0,
        kind: 0,
        info: RecvInfo::default(),
    };
    let mut msg = MsgHdr {
        name: std::ptr::null_mut(),
        namelen: 0,
        iov: &mut iov,
        iovlen: 1,
        control: (&mut control as *mut Control).cast(),
        controllen: size_of::<Control>(),
        flags: 0,
    };
    // SAFETY: all pointers and lengths stay valid during the call.
    let len = unsafe { recvmsg(fd, &mut msg, 0) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    if msg.controllen > 0 && control.level == SOL_MPA && control.kind == MPA_RECVINFO {
        *info = control.info;
    }
    Ok(len)
}

fn bound(fd: RawFd, address: &SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(v4) => {
            let raw = SockAddrIn {
                family: AF_INET as u16,
                port: v4.port().to_be_bytes(),
                addr: v4.ip().octets(),
                zero: [0; 8],
            };
            let at: *const SockAddrIn = &raw;
            good(unsafe { bind(fd, at.cast(), size_of::<SockAddrIn>() as c_uint) })
        }
        SocketAddr::V6(v6) => {
            let raw = SockAddrIn6 {
                family: AF_INET6 as u16,
                port: v6.port().to_be_bytes(),
                flowinfo: v6.flowinfo(),
                addr: v6.ip().octets(),
                scope_id: v6.scope_id(),
            };
            let at: *const SockAddrIn6 = &raw;
            good(unsafe { bind(fd, at.cast(), size_of::<SockAddrIn6>() as c_uint) })
        }
    }
}

/// Attaches MPA before listen(), which std cannot do: otherwise an early client would
/// get plain TCP.
pub fn listen(address: &SocketAddr, start: &Start) -> io::Result<RawFd> {
    let family = if address.is_ipv4() { AF_INET } else { AF_INET6 };
    // SAFETY: the descriptor is closed here, or passed to the caller.
    let fd = unsafe { socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    good(fd)?;
    set_at(fd, SOL_SOCKET, SO_REUSEADDR, &1i32)
        .and_then(|()| set_at(fd, IPPROTO_TCP, TCP_NODELAY, &1i32))
        .and_then(|()| bound(fd, address))
        .and_then(|()| attach(fd))
        .and_then(|()| set(fd, MPA_START, start))
        .and_then(|()| good(unsafe { c_listen(fd, BACKLOG) }))
        .map(|()| fd)
        .map_err(|error| {
            unsafe { close(fd) };
            error
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value in a line "#define NAME VALUE"
    fn in_header(name: &str) -> u64 {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../include/uapi/linux/mpa.h");
        let header = std::fs::read_to_string(path).unwrap();
        let line = header
            .lines()
            .find(|line| line.split_whitespace().take(2).eq(["#define", name]))
            .unwrap_or_else(|| panic!("linux/mpa.h has no {name}"));
        let value: Vec<&str> = line.split_whitespace().skip(2).collect();
        if value[0] == "(1U" {
            return 1 << value[2].trim_end_matches(')').parse::<u32>().unwrap();
        }
        match value[0].strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
            None => value[0].parse().unwrap(),
        }
    }

    #[test]
    fn numbers_are_those_of_the_header() {
        let numbers = [
            ("SOL_MPA", SOL_MPA as u64),
            ("MPA_START", MPA_START as u64),
            ("MPA_INFO", MPA_INFO as u64),
            ("MPA_PEER", MPA_PEER as u64),
            ("MPA_SEGMENT", MPA_SEGMENT as u64),
            ("MPA_PACKING", MPA_PACKING as u64),
            ("MPA_OVERSIZE", MPA_OVERSIZE as u64),
            ("MPA_RECVINFO", MPA_RECVINFO as u64),
            ("MPA_PLACE", MPA_PLACE as u64),
            ("MPA_START_MARKERS", START_MARKERS.into()),
            ("MPA_START_NO_CRC", START_NO_CRC.into()),
            ("MPA_START_ENHANCED", START_ENHANCED.into()),
            ("MPA_INFO_TX_MARKERS", INFO_TX_MARKERS.into()),
            ("MPA_INFO_RX_MARKERS", INFO_RX_MARKERS.into()),
            ("MPA_PEER_MARKERS", PEER_MARKERS.into()),
            ("MPA_PEER_CRC", PEER_CRC.into()),
            ("MPA_RECVINFO_PLACED", PLACED.into()),
            ("MPA_RECVINFO_VALID_ORDER", VALID_ORDER.into()),
            ("MPA_ULPDU_MAX", crate::ULPDU_MAX as u64),
            ("MPA_PRIVATE_DATA_MAX", crate::PRIVATE_DATA_MAX as u64),
        ];
        for (name, value) in numbers {
            assert_eq!(in_header(name), value, "{name}");
        }
        assert_eq!(
            u64::from(INFO_CRC),
            in_header("MPA_INFO_TX_CRC") | in_header("MPA_INFO_RX_CRC")
        );
    }
}
