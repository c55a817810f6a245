// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Errors.

use crate::sys;
use std::{fmt, io, result};

pub type Result<T> = result::Result<T, Error>;

/// Why MPA stopped: the codes of RFC 5044 section 8 and RFC 6581 section 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    None,
    Tcp,
    Crc,
    Marker,
    Startup,
    Local,
    Ird,
    Rtr,
    /// A newer module's code
    Other(u8),
}

impl From<u8> for Code {
    fn from(code: u8) -> Code {
        match code {
            0 => Code::None,
            1 => Code::Tcp,
            2 => Code::Crc,
            3 => Code::Marker,
            4 => Code::Startup,
            5 => Code::Local,
            6 => Code::Ird,
            7 => Code::Rtr,
            other => Code::Other(other),
        }
    }
}

/// Each variant contains the error of the system call.
#[derive(Debug)]
pub enum Error {
    /// The kernel has no mpa.
    NotLoaded(io::Error),
    /// Nothing listens at the address, or the peer rejected the request.
    Refused(io::Error),
    /// The peer does not use MPA, or not this revision, or has the same role.
    NotMpa(io::Error),
    /// The ends do not agree on IRD, ORD or RTR.
    Disagreed(io::Error),
    /// A timeout expired.
    Timeout(io::Error),
    /// A record is damaged, or the stream ended inside one.
    Damaged(io::Error, Code),
    /// A record must have 1 to 64768 octets, or at most MULPDU without set_oversize().
    LongRecord(io::Error),
    /// The connection was lost.
    Lost(io::Error),
    /// Anything else
    Io(io::Error),
}

impl Error {
    pub(crate) fn from_errno(errno: i32, code: Code) -> Error {
        Error::from_io(io::Error::from_raw_os_error(errno), code)
    }

    pub(crate) fn from_io(error: io::Error, code: Code) -> Error {
        match error.raw_os_error() {
            Some(sys::ENOENT) => Error::NotLoaded(error),
            Some(sys::ECONNREFUSED) => Error::Refused(error),
            Some(sys::EPROTO) => Error::NotMpa(error),
            Some(sys::ETIMEDOUT | sys::EAGAIN) => Error::Timeout(error),
            Some(sys::EBADMSG) => Error::Damaged(error, code),
            Some(sys::EMSGSIZE) => Error::LongRecord(error),
            Some(sys::ECONNRESET | sys::EPIPE) => Error::Lost(error),
            Some(sys::ENOBUFS | sys::EOPNOTSUPP) if matches!(code, Code::Ird | Code::Rtr) => {
                Error::Disagreed(error)
            }
            _ if error.kind() == io::ErrorKind::TimedOut => Error::Timeout(error),
            _ => Error::Io(error),
        }
    }

    /// The error of the system call
    pub fn io(&self) -> &io::Error {
        match self {
            Error::NotLoaded(error)
            | Error::Refused(error)
            | Error::NotMpa(error)
            | Error::Disagreed(error)
            | Error::Timeout(error)
            | Error::Damaged(error, _)
            | Error::LongRecord(error)
            | Error::Lost(error)
            | Error::Io(error) => error,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::from_io(error, Code::None)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Error::NotLoaded(_) => "the kernel has no mpa: modprobe mpa, as root",
            Error::Refused(_) => "nothing listens there, or the peer rejected the request",
            Error::NotMpa(_) => {
                "the peer does not speak MPA, or not this revision, or has the same role"
            }
            Error::Disagreed(_) => "the ends do not agree on IRD, ORD or RTR",
            Error::Timeout(_) => "timed out",
            Error::Damaged(_, Code::Marker) => "a marker in the peer's stream is wrong",
            Error::Damaged(_, Code::Tcp) => "the peer's stream ended inside a record",
            Error::Damaged(..) => "a record is damaged: its CRC or its length is wrong",
            Error::LongRecord(_) => "a record is empty, or longer than 64768 octets or MULPDU",
            Error::Lost(_) => "the connection was lost",
            Error::Io(error) => return error.fmt(to),
        };
        to.write_str(words)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.io())
    }
}
