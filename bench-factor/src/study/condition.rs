//! What an observation is asked for, and what that means for its connections.

use std::{
    fmt::{self, Display},
    str::FromStr,
};

use clap::ValueEnum;
use ketch_channel::{ChannelSettings, QuicFlow, TcpFlow, TransportKind};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{
    controller::Controller,
    limits::{
        FIRST_WINDOW_BYTES, HEADROOM_BYTES, SEED_UDP_BUFFER_BYTES, SEED_WINDOW_BYTES, STREAMS, TUNED_STREAMS,
        TUNED_WINDOW_BYTES,
    },
};

/// How files are laid on streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layout {
    /// One stream for each file, many at a time.
    Files,
    /// Records back to back on streams that last as long as the connection.
    Bundle,
}

/// Which settings the connections have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Profile {
    /// The windows that the method states, one stream a connection, the system's UDP buffers.
    Seed,
    /// Several streams a connection with windows of 1 MiB each, large UDP buffers.
    Tuned,
}

/// One cell of the study's matrix, without its data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Condition {
    pub(crate) layout: Layout,
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub(crate) transport: TransportKind,
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub(crate) controller: Controller,
    /// At least 1, and at most [`ketch_protocol::limits::CONNECTIONS`]; the command line and the source check it.
    pub(crate) connections: u8,
    pub(crate) profile: Profile,
    /// What is asked for the buffers of UDP sockets instead of what the profile has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) udp_buffer_bytes: Option<u32>,
}

/// What connections are asked for, of which nothing but the buffers can be read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// Files of one connection that are read, sent and written at the same time.
    pub(crate) lanes: usize,
    /// Streams that either side allows the other on one connection.
    pub(crate) streams: u32,
    /// Largest receive window of one stream.
    pub(crate) stream_window_bytes: u32,
    /// Largest receive window of one connection: over TCP the sum of those of its streams.
    pub(crate) connection_window_bytes: u64,
    /// Buffers of a UDP socket; `None` over TCP, where the system fits them to the path.
    pub(crate) udp_buffer_bytes: Option<u32>,
}

impl Condition {
    /// What it asks for over its transport.
    pub(super) fn asked(&self) -> Asked {
        let ChannelSettings { tcp_flow, quic_flow, udp_buffer_bytes, .. } = self.settings();
        let (stream_window_bytes, connection_window_bytes, udp_buffer_bytes) = match self.transport {
            TransportKind::Tcp => (tcp_flow.stream_window_bytes, tcp_flow.windows_bytes, None),
            TransportKind::Quic => {
                (quic_flow.stream_window_bytes, quic_flow.largest_window_bytes.into(), udp_buffer_bytes)
            }
        };
        let lanes = self.lanes();
        Asked { lanes, streams: STREAMS, stream_window_bytes, connection_window_bytes, udp_buffer_bytes }
    }

    /// What connections are asked for, on both sides.
    pub(super) fn settings(&self) -> ChannelSettings {
        let (controller, quic_bbr) = self.controller.of_channel();
        let by_profile = self.by_profile();
        let udp_buffer_bytes = self.udp_buffer_bytes.or(by_profile.udp_buffer_bytes);
        ChannelSettings { controller: Some(controller), quic_bbr, udp_buffer_bytes, ..by_profile }
    }

    /// Windows, and the buffers that the profile has.
    fn by_profile(&self) -> ChannelSettings {
        match self.profile {
            Profile::Seed => ChannelSettings {
                udp_buffer_bytes: Some(SEED_UDP_BUFFER_BYTES),
                tcp_flow: tcp_flow(SEED_WINDOW_BYTES),
                quic_flow: QuicFlow {
                    streams: STREAMS,
                    stream_window_bytes: SEED_WINDOW_BYTES,
                    window_bytes: SEED_WINDOW_BYTES,
                    largest_window_bytes: SEED_WINDOW_BYTES,
                },
                ..ChannelSettings::default()
            },
            Profile::Tuned => ChannelSettings {
                tcp_flow: tcp_flow(TUNED_WINDOW_BYTES),
                quic_flow: QuicFlow {
                    streams: STREAMS,
                    stream_window_bytes: TUNED_WINDOW_BYTES,
                    ..QuicFlow::default()
                },
                ..ChannelSettings::default()
            },
        }
    }

    /// How many files of one connection are read, sent and written at the same time. In the layout `bundle` each of
    /// these has a stream of its own. It does not depend on the layout, so that layouts differ by nothing else.
    pub(super) fn lanes(&self) -> usize {
        match self.profile {
            Profile::Seed => 1,
            Profile::Tuned => TUNED_STREAMS,
        }
    }
}

/// Every stream that is allowed may have its first window, and on top of that they may grow. What may come unread is
/// bounded by that alone.
fn tcp_flow(stream_window_bytes: u32) -> TcpFlow {
    let windows_bytes = u64::from(STREAMS) * FIRST_WINDOW_BYTES + HEADROOM_BYTES;
    TcpFlow {
        streams: STREAMS as usize,
        unanswered_streams: STREAMS as usize,
        stream_window_bytes,
        windows_bytes,
        unread_bytes: usize::try_from(windows_bytes).unwrap_or(usize::MAX),
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layout, transport, controller, connections, profile, udp_buffer_bytes } = self;
        write!(f, "{layout}, {transport}, {controller}, {connections}, {profile}")?;
        udp_buffer_bytes.map_or(Ok(()), |bytes| write!(f, ", UDP buffers of {bytes}"))
    }
}

impl Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Files => "files",
            Self::Bundle => "bundle",
        })
    }
}

impl Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Seed => "seed",
            Self::Tuned => "tuned",
        })
    }
}

fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(profile: Profile) -> Condition {
        Condition {
            layout: Layout::Bundle,
            transport: TransportKind::Quic,
            controller: Controller::Bbr,
            connections: 8,
            profile,
            udp_buffer_bytes: None,
        }
    }

    #[test]
    fn the_profile_seed_has_the_numbers_of_the_method() {
        let settings = condition(Profile::Seed).settings();
        assert_eq!(settings.tcp_flow.windows_bytes, 8_192 * 262_144 + 16_515_072);
        assert_eq!((settings.tcp_flow.streams, settings.tcp_flow.stream_window_bytes), (8_192, 16_777_216));
        let quic = settings.quic_flow;
        let windows = [quic.stream_window_bytes, quic.window_bytes, quic.largest_window_bytes];
        assert_eq!((quic.streams, windows), (8_192, [16_777_216; 3]));
        assert_eq!(condition(Profile::Seed).lanes(), 1);
    }

    #[test]
    fn no_stream_of_the_profile_tuned_has_more_than_a_mebibyte_under_way() {
        let settings = condition(Profile::Tuned).settings();
        assert_eq!(settings.tcp_flow.stream_window_bytes, 1 << 20);
        assert_eq!(settings.quic_flow.stream_window_bytes, 1 << 20);
        assert!(settings.udp_buffer_bytes >= Some(4 << 20));
    }

    #[test]
    fn a_condition_crosses_as_words() {
        let sent = condition(Profile::Tuned);
        let text = serde_json::to_string(&sent).unwrap();
        assert_eq!(
            text,
            r#"{"layout":"bundle","transport":"quic","controller":"bbr","connections":8,"profile":"tuned"}"#
        );
        assert_eq!(serde_json::from_str::<Condition>(&text).unwrap(), sent);
        assert!(serde_json::from_str::<Condition>(&text.replace("bbr", "reno")).is_err());
    }
}
