//! What connections are asked for, as the commands that have connections share it.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use ketch::swarm::{ChannelSettings, Controller};
use ketch_protocol::path::escape;

/// What connections are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub(crate) struct ChannelOptions {
    /// Congestion controller of the connections: the system's, cubic or bbr; the other side is asked for it too
    #[arg(long, value_enum, default_value_t = ControllerName::Auto)]
    controller: ControllerName,

    /// Length of each TCP socket's buffers on this side, such as 4M, or as the system fits them to the path
    #[arg(long, value_name = "SIZE|system", default_value = "system")]
    tcp_buffers: BufferLength,

    /// Length of each UDP socket's buffers on this side, such as 208K, or as the system gives them by itself
    #[arg(long, value_name = "SIZE|system", default_value = "8M")]
    udp_buffers: BufferLength,
}

impl ChannelOptions {
    /// What the library takes.
    pub(crate) fn settings(self) -> ChannelSettings {
        let controller = match self.controller {
            ControllerName::Auto => None,
            ControllerName::Cubic => Some(Controller::Cubic),
            ControllerName::Bbr => Some(Controller::Bbr),
        };
        ChannelSettings {
            controller,
            tcp_buffer_bytes: self.tcp_buffers.bytes(),
            udp_buffer_bytes: self.udp_buffers.bytes(),
            ..ChannelSettings::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ControllerName {
    /// The one that the system uses
    Auto,
    /// Slows down when something is lost
    Cubic,
    /// Goes by the rate that it measures
    Bbr,
}

/// How long a buffer of a socket is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BufferLength {
    /// What it is by itself.
    System,
    /// So many bytes.
    Bytes(u32),
}

impl BufferLength {
    /// One datagram that the system cuts into packets has to fit.
    const LEAST: u32 = 64 << 10;

    /// Systems count buffers in 32 bits with a sign, and double what they are asked for.
    const MOST: u32 = (1 << 30) - 1;

    fn bytes(self) -> Option<u32> {
        match self {
            Self::System => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// `system`, `212992`, `208K` or `8M`, in units of 1024.
impl FromStr for BufferLength {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "system" {
            return Ok(Self::System);
        }
        let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "" => Some(1),
            "k" | "K" => Some(1 << 10),
            "m" | "M" => Some(1 << 20),
            _ => None,
        };
        let bytes = digits.parse::<u32>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
        let within = bytes.filter(|bytes| (Self::LEAST..=Self::MOST).contains(bytes));
        within.map(Self::Bytes).ok_or_else(|| {
            let shown = escape(text.as_bytes());
            format!(
                "\"{shown}\" is no length from 64K to below 1024M, such as 212992, 208K or 8M, nor \"system\""
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        channel: ChannelOptions,
    }

    fn settings(line: &[&str]) -> Result<ChannelSettings, clap::Error> {
        let line = Line::try_parse_from(["ketch"].iter().chain(line))?;
        Ok(line.channel.settings())
    }

    #[test]
    fn what_nobody_asks_for_is_the_default_of_the_library() {
        let (said, default) = (settings(&[]).unwrap(), ChannelSettings::default());
        assert_eq!(said.controller, default.controller);
        assert_eq!(said.tcp_buffer_bytes, default.tcp_buffer_bytes);
        assert_eq!(said.udp_buffer_bytes, default.udp_buffer_bytes);
    }

    #[test]
    fn buffers_have_a_length_or_are_left_to_the_system() {
        let udp = |text| settings(&["--udp-buffers", text]).map(|settings| settings.udp_buffer_bytes);
        assert_eq!(udp("system").unwrap(), None);
        for (text, bytes) in
            [("65536", 64 << 10), ("64k", 64 << 10), ("208K", 212_992), ("1023M", 1023 << 20)]
        {
            assert_eq!(udp(text).unwrap(), Some(bytes), "{text}");
        }
        for text in
            ["", "0", "63K", "1024M", "1G", "1.5M", "-1M", "99999999999", "many", "1 M", "\u{1b}K", "1\u{fc}"]
        {
            assert!(!udp(text).unwrap_err().to_string().contains("\u{1b}K"), "{text}");
        }
        let tcp = settings(&["--tcp-buffers", "4M"]).unwrap();
        assert_eq!(tcp.tcp_buffer_bytes, Some(4 << 20));
    }
}
