//! [`RelayConfig`]: what `ketch relay` is told by its configuration file.
//!
//! ```toml
//! listen = ["/ip4/0.0.0.0/tcp/5383", "/ip4/0.0.0.0/udp/5383/quic-v1"]
//! external = ["/dns4/relay.example/tcp/5383"]
//! metrics = "127.0.0.1:9383"
//!
//! [reservations]
//! most = 1024
//! per_address = 64
//! minutes = 60
//!
//! [circuits]
//! most = 256
//! per_peer = 8
//! data = "limited"
//! bytes = "128M"
//! minutes = 60
//!
//! [hourly]
//! bytes = "16G"
//! bytes_per_peer = "1G"
//!
//! [peers]
//! 12D3KooW… = "on"
//! ```
//!
//! What is left out is as in [`Policy::default`]. Bytes are a number or text with K, M, G or T, in units of 1024;
//! `"unlimited"` takes a limit away. A word that is not known is an error, so that no limit is less than its owner thinks.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, time::Duration};

use serde::{Deserialize, Deserializer, de};

use super::policy::{Allowance, Carrying, Policy};
use crate::{
    config::{ConfigError, place_and_message, read_file},
    swarm::{Multiaddr, PeerId},
};

/// Where a relay is, and how much it does for whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelayConfig {
    /// Addresses to listen on; the usual ones if none is given.
    pub listen: Vec<Multiaddr>,
    /// Addresses at which others reach it, if it is not where it listens.
    pub external: Vec<Multiaddr>,
    /// Where to show its counts.
    pub metrics: Option<SocketAddr>,
    /// How much it does for whom.
    pub policy: Policy,
}

impl RelayConfig {
    /// Reads a configuration file.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        read_file(file, parse)
    }
}

fn parse(text: &str) -> Result<RelayConfig, String> {
    let stored: Stored = toml::from_str(text).map_err(|error| place_and_message(text, &error))?;
    let usual = Policy::default();
    let Stored { listen, external, metrics, reservations, circuits, hourly, peers } = stored;
    let time = circuits.minutes.map_or(usual.circuit.time, MinutesLimit::time);
    let policy = Policy {
        reservations: reservations.most.unwrap_or(usual.reservations),
        reservations_per_address: reservations.per_address.unwrap_or(usual.reservations_per_address),
        reservation_time: reservations.minutes.map_or(usual.reservation_time, |minutes| minutes.0),
        circuits: circuits.most.unwrap_or(usual.circuits),
        circuits_per_peer: circuits.per_peer.unwrap_or(usual.circuits_per_peer),
        carrying: circuits.data.map_or(usual.carrying, |data| data.0),
        circuit: Allowance { bytes: circuits.bytes.map_or(usual.circuit.bytes, |bytes| bytes.0), time },
        hourly_bytes_per_peer: hourly.bytes_per_peer.map_or(usual.hourly_bytes_per_peer, |bytes| bytes.0),
        hourly_bytes: hourly.bytes.map_or(usual.hourly_bytes, |bytes| bytes.0),
        listed: peers.into_iter().map(|(peer, data)| (peer.0, data.0)).collect(),
    };
    let [listen, external] = [listen, external].map(|list| list.into_iter().map(|text| text.0).collect());
    Ok(RelayConfig { listen, external, metrics: metrics.map(|text| text.0), policy })
}

/// The configuration as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(default)]
    listen: Vec<Text<Multiaddr>>,
    #[serde(default)]
    external: Vec<Text<Multiaddr>>,
    metrics: Option<Text<SocketAddr>>,
    #[serde(default)]
    reservations: StoredReservations,
    #[serde(default)]
    circuits: StoredCircuits,
    #[serde(default)]
    hourly: StoredHourly,
    #[serde(default)]
    peers: BTreeMap<Text<PeerId>, Data>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredReservations {
    most: Option<usize>,
    per_address: Option<usize>,
    minutes: Option<Minutes>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCircuits {
    most: Option<usize>,
    per_peer: Option<usize>,
    data: Option<Data>,
    bytes: Option<BytesLimit>,
    minutes: Option<MinutesLimit>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredHourly {
    bytes: Option<BytesLimit>,
    bytes_per_peer: Option<BytesLimit>,
}

/// Text that stands for something.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Text<T>(T);

impl<'de, T: std::str::FromStr<Err: std::fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(de::Error::custom)
    }
}

#[derive(Clone, Copy)]
struct Data(Carrying);

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let words = [Carrying::Off, Carrying::Limited, Carrying::On];
        let meant = words.into_iter().find(|carrying| carrying.to_string() == word);
        meant.map(Self).ok_or_else(|| de::Error::custom(format!("\"{word}\" is neither off, limited nor on")))
    }
}

/// A whole number of minutes, up to that of a reservation and of a circuit which other implementations understand.
#[derive(Clone, Copy)]
struct Minutes(Duration);

/// Sixty days.
const MOST_MINUTES: u64 = 60 * 24 * 60;

impl<'de> Deserialize<'de> for Minutes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            minutes @ 1..=MOST_MINUTES => Ok(Self(Duration::from_secs(60 * minutes))),
            other => Err(de::Error::custom(format!("{other} is no number from 1 to {MOST_MINUTES}"))),
        }
    }
}

/// Minutes, or none.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum MinutesLimit {
    Some(Minutes),
    Word(Unlimited),
}

impl MinutesLimit {
    fn time(self) -> Option<Duration> {
        match self {
            Self::Some(minutes) => Some(minutes.0),
            Self::Word(Unlimited::Unlimited) => None,
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unlimited {
    Unlimited,
}

/// A number of bytes, or none.
#[derive(Clone, Copy)]
struct BytesLimit(Option<u64>);

impl<'de> Deserialize<'de> for BytesLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "expected a number of bytes, or text such as \"128M\" or \"unlimited\""
        )]
        enum Either {
            Number(u64),
            Text(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(bytes) => Ok(Self(Some(bytes))),
            Either::Text(text) if text == "unlimited" => Ok(Self(None)),
            Either::Text(text) => bytes(&text).map(|bytes| Self(Some(bytes))).ok_or_else(|| {
                de::Error::custom(format!(
                    "\"{text}\" is no length, such as 65536, 128M or 1G, nor \"unlimited\""
                ))
            }),
        }
    }
}

/// `65536`, `64K`, `128M`, `1G` or `1T`, in units of 1024.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        "T" | "t" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_the_usual_relay() {
        assert_eq!(parse(""), Ok(RelayConfig::default()));
    }

    #[test]
    fn a_file_says_where_it_is_and_what_it_allows() {
        let peer = PeerId::random();
        let text = format!(
            "listen = [\"/ip4/0.0.0.0/tcp/1\"]\nexternal = [\"/dns4/relay.example/tcp/1\"]\nmetrics = \"127.0.0.1:2\"\n\
             [reservations]\nmost = 3\nper_address = 4\nminutes = 5\n\
             [circuits]\nmost = 6\nper_peer = 7\ndata = \"off\"\nbytes = \"8K\"\nminutes = \"unlimited\"\n\
             [hourly]\nbytes = \"unlimited\"\nbytes_per_peer = 9\n[peers]\n{peer} = \"on\"\n"
        );
        let policy = Policy {
            reservations: 3,
            reservations_per_address: 4,
            reservation_time: Duration::from_secs(300),
            circuits: 6,
            circuits_per_peer: 7,
            carrying: Carrying::Off,
            circuit: Allowance { bytes: Some(8192), time: None },
            hourly_bytes_per_peer: Some(9),
            hourly_bytes: None,
            listed: [(peer, Carrying::On)].into(),
        };
        let expected = RelayConfig {
            listen: vec!["/ip4/0.0.0.0/tcp/1".parse().unwrap()],
            external: vec!["/dns4/relay.example/tcp/1".parse().unwrap()],
            metrics: Some("127.0.0.1:2".parse().unwrap()),
            policy,
        };
        assert_eq!(parse(&text), Ok(expected));
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line_and_field() {
        for (text, told) in [
            ("lisen = []", "line 1, lisen"),
            ("listen = [\"here\"]", "line 1, listen"),
            ("metrics = \"9383\"", "line 1, metrics"),
            ("\n[reservations]\nmost = -1", "line 3, most"),
            ("[reservations]\nminutes = 0", "line 2, minutes"),
            ("[circuits]\ndata = \"some\"", "line 2, data: \"some\" is neither"),
            ("[circuits]\nbytes = \"8Q\"", "line 2, bytes: \"8Q\" is no length"),
            ("[circuits]\nminutes = \"ten\"", "line 2, minutes"),
            ("[hourly]\nbytes = true", "line 2, bytes"),
            ("[peers]\nme = \"on\"", "line 2, me"),
            ("[peers", "line 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn lengths_have_units_and_an_end() {
        assert_eq!(["1", "2K", "3m", "1T"].map(bytes), [1, 2 << 10, 3 << 20, 1 << 40].map(Some));
        assert_eq!(["", "K", "1.5M", "-1", "1KB", "99999999999T"].map(bytes), [None; 6]);
    }
}
