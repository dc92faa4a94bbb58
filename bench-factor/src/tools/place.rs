//! Where the two ends of a session are: on one machine's loopback, or on two hosts joined by an emulated
//! path. Adapters write commands; this decides where they run and what crossed between them.

use std::{
    fmt, fs,
    net::{IpAddr, Ipv4Addr},
    path::Path,
    process::Command,
};

use super::error::{ToolsError, io_error};

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Where the server of a tool runs.
    A,
    /// Where the command runs that is timed.
    B,
}

/// Where a plan runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Where {
    /// Both ends on this host, joined by `lo`.
    Loopback,
    /// Each end on a host of its own, joined by a path with this profile.
    Link(String),
}

impl Where {
    /// Where a plan that names `link`, or does not, runs.
    pub(crate) fn new(link: Option<String>) -> Result<Self, ToolsError> {
        match link {
            None => Ok(Self::Loopback),
            Some(profile) => {
                let reason = "and this build has no emulated path".to_owned();
                Err(ToolsError::Asked { asked: format!("the link {profile}"), reason })
            }
        }
    }

    /// The address of a side, as the other one dials it.
    pub(crate) fn address(&self, _side: Side) -> IpAddr {
        match self {
            Self::Loopback | Self::Link(_) => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// `command`, made to run on a side.
    pub(crate) fn on(&self, _side: Side, command: Command) -> Command {
        match self {
            Self::Loopback | Self::Link(_) => command,
        }
    }

    /// Bytes that have crossed between the ends so far, in both directions, with all headers.
    pub(crate) fn wire_bytes(&self) -> Result<u64, ToolsError> {
        match self {
            Self::Loopback | Self::Link(_) => sent_bytes("lo"),
        }
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::Link(profile) => profile,
        })
    }
}

/// What an interface of this host has sent. On `lo` that is what both ends have.
fn sent_bytes(interface: &'static str) -> Result<u64, ToolsError> {
    let path = Path::new("/proc/net/dev");
    let table = fs::read_to_string(path).map_err(io_error("read the counters in", path))?;
    sent_in(&table, interface).ok_or_else(|| ToolsError::Counters { path: path.to_owned(), interface })
}

/// The ninth number after the name of an interface, as proc(5) lays the table out.
fn sent_in(table: &str, interface: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    line.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sent_bytes_of_an_interface_are_found() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets\n   lo0:  1 2 3 4 5 6 7 8 9 10\n    lo: 11 2 3 4 5 6 7 8 99 10\n";
        assert_eq!(sent_in(table, "lo"), Some(99));
        assert_eq!(sent_in(table, "eth0"), None);
    }
}
