//! [`Ticket`]: one line that lets one peer find, trust and fetch one offer. `docs/ticket.md` owns the layout.
//!
//! The line is `ketch1` and then base32 of an envelope (version, length, body, checksum). The envelope is the
//! same in every version, so a typo, a cut and a newer version are told apart without a network. The checksum
//! finds mistakes, not malice: a ticket is worth as much as the way it came.

use std::{fmt, str::FromStr};

use data_encoding::BASE32_NOPAD;
use ketch_protocol::path::escape;

use super::secret;
use crate::swarm::{Multiaddr, PeerId};
use ketch_protocol::message::{SECRET_BYTES, Secret};

/// Most addresses in a ticket: every interface of a usual machine over both transports; more are left out.
pub const TICKET_ADDRESSES: usize = 16;

/// Longest address in a ticket, in bytes: its length field has 8 bits; a longer one is left out.
pub const ADDRESS_BYTES: usize = u8::MAX as usize;

/// Longest ticket, in characters without white space: 16 addresses of the full length fit. Nothing longer is
/// decoded, so a caller need not read more than this (and line breaks) from a file.
pub const TICKET_CHARACTERS: usize = 8 * 1_024;

/// In front of the base32 text. None of `0189` is in that alphabet, so the end of the prefix is plain to see.
const PREFIX: &str = "ketch1";
const VERSION: u8 = 1;

/// Version and length.
const HEADER_BYTES: usize = 3;
/// One typo in four thousand million goes unseen.
const CHECKSUM_BYTES: usize = 4;

/// Set when the peer is not an ed25519 key and is written as a multihash with its length.
const FLAG_MULTIHASH: u8 = 1;
/// Set when the ticket expires.
const FLAG_EXPIRES: u8 = 2;

/// What every PeerId of an ed25519 key begins with: an identity multihash of 36 bytes that holds a protobuf
/// of key type 1 and a key of 32 bytes (libp2p specification, peer-ids).
const ED25519_PEER_PREFIX: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
const ED25519_KEY_BYTES: usize = 32;

/// What a receiver needs in order to fetch one offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    peer: PeerId,
    addresses: Vec<Multiaddr>,
    secret: Secret,
    expires_s: Option<u64>,
}

impl Ticket {
    /// A ticket for the offer that `peer` keeps under `secret`, valid until the Unix second `expires_s`.
    ///
    /// Addresses lose a `/p2p/` of the peer itself at their end, which the ticket says once; duplicates,
    /// empty and overlong addresses and those after the first [`TICKET_ADDRESSES`] are left out.
    pub fn new(
        peer: PeerId,
        addresses: impl IntoIterator<Item = Multiaddr>,
        secret: Secret,
        expires_s: Option<u64>,
    ) -> Self {
        let own_end = Multiaddr::empty().with_p2p(peer).unwrap_or_else(|address| address);
        let mut kept = Vec::new();
        for mut address in addresses {
            if address.ends_with(&own_end) {
                address.pop();
            }
            let fits = !address.is_empty() && address.len() <= ADDRESS_BYTES;
            if fits && !kept.contains(&address) && kept.len() < TICKET_ADDRESSES {
                kept.push(address);
            }
        }
        Self { peer, addresses: kept, secret, expires_s }
    }

    /// A ticket for this peer with a new secret from the system's randomness, which may fail.
    pub fn draw(
        peer: PeerId,
        addresses: impl IntoIterator<Item = Multiaddr>,
        expires_s: Option<u64>,
    ) -> Result<Self, getrandom::Error> {
        Ok(Self::new(peer, addresses, secret::random()?, expires_s))
    }

    /// The sender that the ticket pins.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// Where to dial it, best first; may be empty.
    pub fn addresses(&self) -> &[Multiaddr] {
        &self.addresses
    }

    /// What admits the receiver; shown to the pinned peer only.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The Unix second from which on it is worthless; `None` if it does not expire.
    pub fn expires_s(&self) -> Option<u64> {
        self.expires_s
    }

    /// Whether it is worthless at the Unix second `now_s`.
    pub fn is_expired(&self, now_s: u64) -> bool {
        self.expires_s.is_some_and(|expires_s| expires_s <= now_s)
    }

    /// The same line in capitals, which a QR code holds in about half the space. It parses alike.
    pub fn to_capitals(&self) -> String {
        self.to_string().to_ascii_uppercase()
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = BASE32_NOPAD.encode(&seal(&encode_body(self)));
        write!(f, "{PREFIX}{}", text.to_ascii_lowercase())
    }
}

/// Why text is not a ticket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Nothing but white space.
    #[error("the ticket is empty")]
    Empty,
    /// Some other text.
    #[error("this is no ticket: it does not begin with \"{PREFIX}\"")]
    Foreign,
    /// A character that no ticket has, by its place among the characters that are not white space.
    #[error("the ticket has a typo: character {place} is \"{}\", which no ticket contains", escape(.character.encode_utf8(&mut [0; 4]).as_bytes()))]
    Character {
        /// The place, counted from 1.
        place: usize,
        /// What stands there.
        character: char,
    },
    /// Fewer characters than the ticket says it has.
    #[error("the ticket is cut short: {came} of {whole} characters came")]
    Short {
        /// Characters that came.
        came: usize,
        /// Characters it should have.
        whole: usize,
    },
    /// More characters than the ticket says it has.
    #[error("the ticket has a typo: it should end after {whole} characters, more came")]
    Long {
        /// Characters it should have.
        whole: usize,
    },
    /// All characters are possible, but together they are not what was made.
    #[error("the ticket has a typo: its checksum does not match")]
    Checksum,
    /// Whole, but made by a newer ketch.
    #[error(
        "the ticket is from a newer version of ketch: it has format {0}, this one reads format {VERSION}"
    )]
    Newer(u8),
    /// Whole, but wrong: whatever made it has a fault or ill will.
    #[error("the ticket was made wrongly: {0}")]
    Malformed(&'static str),
}

impl FromStr for Ticket {
    type Err = TicketError;

    /// Reads a ticket in either case; white space anywhere (a terminal's line breaks) and quotes around it
    /// do not matter.
    fn from_str(text: &str) -> Result<Self, TicketError> {
        let line = unwrap_line(text)?;
        let payload = strip_prefix(&line)?;
        check_characters(payload)?;
        let envelope = decode_envelope(payload)?;
        let body = open(&envelope)?;
        decode_body(body)
    }
}

/// One run of characters, at most one more than a ticket can have.
fn unwrap_line(text: &str) -> Result<String, TicketError> {
    let is_wrapping = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '“' | '”');
    let line: String = text
        .trim_matches(is_wrapping)
        .chars()
        .filter(|c| !c.is_whitespace())
        .take(TICKET_CHARACTERS + 1)
        .collect();
    if line.is_empty() { Err(TicketError::Empty) } else { Ok(line) }
}

fn strip_prefix(line: &str) -> Result<&str, TicketError> {
    match line.get(..PREFIX.len()) {
        Some(start) if start.eq_ignore_ascii_case(PREFIX) => Ok(&line[PREFIX.len()..]),
        _ => Err(TicketError::Foreign),
    }
}

fn check_characters(payload: &str) -> Result<(), TicketError> {
    let is_base32 = |c: char| matches!(c, 'a'..='z' | 'A'..='Z' | '2'..='7');
    match payload.chars().enumerate().find(|&(_, c)| !is_base32(c)) {
        Some((index, character)) => {
            Err(TicketError::Character { place: PREFIX.len() + index + 1, character })
        }
        None => Ok(()),
    }
}

/// The bytes behind base32 text, once their number is what their header says.
fn decode_envelope(payload: &str) -> Result<Vec<u8>, TicketError> {
    let capitals = payload.to_ascii_uppercase();
    let whole = PREFIX.len() + claimed_characters(capitals.as_bytes())?;
    let came = PREFIX.len() + capitals.len();
    if came < whole {
        return Err(TicketError::Short { came, whole });
    }
    if came > whole {
        return Err(TicketError::Long { whole });
    }
    // What can still fail is a last character with bits that stand for nothing.
    BASE32_NOPAD.decode(capitals.as_bytes()).map_err(|_| TicketError::Checksum)
}

/// How many characters the header at the start of `capitals` promises.
fn claimed_characters(capitals: &[u8]) -> Result<usize, TicketError> {
    let came = PREFIX.len() + capitals.len();
    // Eight characters are five bytes without a rest; the shortest envelope is longer.
    let start = capitals.get(..8).ok_or(TicketError::Short { came, whole: shortest_characters() })?;
    let header = BASE32_NOPAD.decode(start).map_err(|_| TicketError::Checksum)?;
    let bytes = usize::from(u16::from_be_bytes([header[1], header[2]]));
    if bytes < HEADER_BYTES + CHECKSUM_BYTES {
        return Err(TicketError::Checksum);
    }
    Ok(BASE32_NOPAD.encode_len(bytes))
}

/// Characters of an envelope with an empty body and its prefix.
fn shortest_characters() -> usize {
    PREFIX.len() + BASE32_NOPAD.encode_len(HEADER_BYTES + CHECKSUM_BYTES)
}

/// Version, length, body, checksum.
fn seal(body: &[u8]) -> Vec<u8> {
    let length = HEADER_BYTES + body.len() + CHECKSUM_BYTES;
    let length = u16::try_from(length).expect("16 addresses of 255 bytes and the rest are below 65,536");
    let mut envelope = vec![VERSION];
    envelope.extend(length.to_be_bytes());
    envelope.extend(body);
    envelope.extend(checksum(&envelope));
    envelope
}

/// The body of a whole envelope of this version.
fn open(envelope: &[u8]) -> Result<&[u8], TicketError> {
    let (content, sum) = envelope.split_last_chunk::<CHECKSUM_BYTES>().ok_or(TicketError::Checksum)?;
    if *sum != checksum(content) {
        return Err(TicketError::Checksum);
    }
    match content {
        [VERSION, _, _, body @ ..] => Ok(body),
        [newer, ..] => Err(TicketError::Newer(*newer)),
        [] => Err(TicketError::Checksum),
    }
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = blake3::hash(content);
    *hash.as_bytes().first_chunk().expect("a BLAKE3 hash has 32 bytes")
}

fn encode_body(ticket: &Ticket) -> Vec<u8> {
    let peer = ticket.peer.to_bytes();
    let key = peer.strip_prefix(&ED25519_PEER_PREFIX);
    let mut flags = 0;
    if key.is_none() {
        flags |= FLAG_MULTIHASH;
    }
    if ticket.expires_s.is_some() {
        flags |= FLAG_EXPIRES;
    }
    let mut body = vec![flags];
    match key {
        Some(key) => body.extend(key),
        None => push_field(&mut body, &peer),
    }
    body.extend(ticket.secret.as_bytes());
    body.extend(ticket.expires_s.iter().flat_map(|expires_s| expires_s.to_be_bytes()));
    ticket.addresses.iter().for_each(|address| push_field(&mut body, address.as_ref()));
    body
}

/// A length of one byte and that many bytes.
fn push_field(body: &mut Vec<u8>, field: &[u8]) {
    let length = u8::try_from(field.len()).expect("a PeerId has at most 66 bytes, an address at most 255");
    body.push(length);
    body.extend(field);
}

fn decode_body(body: &[u8]) -> Result<Ticket, TicketError> {
    let mut rest = Fields(body);
    let flags = rest.array::<1>()?[0];
    if flags & !(FLAG_MULTIHASH | FLAG_EXPIRES) != 0 {
        return Err(TicketError::Malformed("it has flags that stand for nothing"));
    }
    let peer = match flags & FLAG_MULTIHASH {
        0 => [&ED25519_PEER_PREFIX[..], &rest.array::<ED25519_KEY_BYTES>()?].concat(),
        _ => rest.field()?.to_vec(),
    };
    let peer = PeerId::from_bytes(&peer).map_err(|_| TicketError::Malformed("its PeerId is none"))?;
    let secret = Secret::from_bytes(rest.array::<SECRET_BYTES>()?);
    let expires_s = match flags & FLAG_EXPIRES {
        0 => None,
        _ => Some(u64::from_be_bytes(rest.array()?)),
    };
    Ok(Ticket::new(peer, decode_addresses(rest)?, secret, expires_s))
}

/// The addresses that this version can read; others are for peers that know more.
fn decode_addresses(mut rest: Fields<'_>) -> Result<Vec<Multiaddr>, TicketError> {
    let mut addresses = Vec::new();
    let mut count = 0;
    while !rest.0.is_empty() {
        count += 1;
        if count > TICKET_ADDRESSES {
            return Err(TicketError::Malformed("it has more than 16 addresses"));
        }
        addresses.extend(Multiaddr::try_from(rest.field()?.to_vec()));
    }
    Ok(addresses)
}

/// What is left of a body.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], TicketError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(PAST_THE_END)?;
        self.0 = rest;
        Ok(*array)
    }

    fn field(&mut self) -> Result<&'a [u8], TicketError> {
        let length = usize::from(self.array::<1>()?[0]);
        let (field, rest) = self.0.split_at_checked(length).ok_or(PAST_THE_END)?;
        self.0 = rest;
        Ok(field)
    }
}

const PAST_THE_END: TicketError = TicketError::Malformed("a field reaches past its end");

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    fn peer(key_byte: u8) -> PeerId {
        PeerId::from_bytes(&[&ED25519_PEER_PREFIX[..], &[key_byte; 32]].concat()).unwrap()
    }

    /// The worked example of `docs/ticket.md`.
    fn example() -> Ticket {
        let addresses = [address("/ip4/192.0.2.7/udp/4001/quic-v1"), address("/ip4/192.0.2.7/tcp/4001")];
        let secret = Secret::from_bytes(*b"0123456789abcdef");
        Ticket::new(peer(0x11), addresses, secret, Some(1_800_000_000))
    }

    /// A ticket around any body, with the checksum a careful forger would give it.
    fn forged(version: u8, body: &[u8]) -> String {
        let mut envelope = seal(body);
        envelope.truncate(envelope.len() - CHECKSUM_BYTES);
        envelope[0] = version;
        envelope.extend(checksum(&envelope));
        format!("{PREFIX}{}", BASE32_NOPAD.encode(&envelope))
    }

    fn parse(text: &str) -> Result<Ticket, TicketError> {
        text.parse()
    }

    #[test]
    fn the_document_shows_the_example_as_it_is_encoded() {
        let document = include_str!("../../../docs/ticket.md");
        let hex = data_encoding::HEXLOWER.encode(&seal(&encode_body(&example())));
        let shown: String = document
            .lines()
            .filter_map(|line| line.strip_prefix("    | "))
            .filter_map(|line| line.split('|').next())
            .flat_map(str::split_whitespace)
            .collect();
        assert_eq!(shown, hex);
        assert!(document.contains(&format!("    {}\n", example())), "{}", example());
    }

    #[test]
    fn a_ticket_survives_the_way_through_its_line() {
        let secret = || Secret::from_bytes([9; SECRET_BYTES]);
        let sha256 = PeerId::from_bytes(&[&[0x12, 0x20][..], &[5; 32]].concat()).unwrap();
        let many = (0..20).map(|port| address(&format!("/ip6/::1/udp/{port}/quic-v1")));
        let tickets = [
            example(),
            Ticket::new(peer(0), [], secret(), None),
            Ticket::new(sha256, [address("/dns/example.org/tcp/1")], secret(), Some(u64::MAX)),
            Ticket::new(peer(0xff), many, secret(), Some(0)),
        ];
        for ticket in tickets {
            assert_eq!(parse(&ticket.to_string()), Ok(ticket.clone()));
            assert_eq!(parse(&ticket.to_capitals()), Ok(ticket));
        }
    }

    #[test]
    fn a_line_can_be_copied_by_a_double_click() {
        assert!(example().to_string().bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    }

    #[test]
    fn what_mail_and_terminals_put_around_a_ticket_does_not_matter() {
        let line = example().to_string();
        let (left, right) = line.split_at(70);
        let wrapped = [
            format!(" \"{line}\"\r\n"),
            format!("'{left}\n{right}'"),
            format!("`{left}\r\n    {right}`\n"),
            format!("“{left}\u{a0}{right}”"),
        ];
        for text in wrapped {
            assert_eq!(parse(&text), Ok(example()), "{text:?}");
        }
    }

    #[test]
    fn every_changed_character_is_found() {
        let line = example().to_string();
        for place in 0..line.len() {
            for other in "abcdefghijklmnopqrstuvwxyz0123456789.".chars() {
                let typo = format!("{}{other}{}", &line[..place], &line[place + 1..]);
                assert!(typo == line || parse(&typo).is_err(), "{typo}");
            }
        }
    }

    #[test]
    fn swapped_doubled_and_missing_characters_are_found() {
        let line = example().to_string();
        for place in 0..line.len() {
            let (start, rest) = line.split_at(place);
            let mut swapped = line.clone().into_bytes();
            swapped.swap(place, (place + 1).min(line.len() - 1));
            let swapped = String::from_utf8(swapped).unwrap();
            assert!(swapped == line || parse(&swapped).is_err(), "{swapped}");
            assert!(parse(&format!("{start}{}{rest}", &rest[..1])).is_err(), "doubled at {place}");
            assert!(parse(&format!("{start}{}", &rest[1..])).is_err(), "missing at {place}");
        }
    }

    #[test]
    fn a_cut_ticket_is_called_cut_wherever_it_is_cut() {
        let line = example().to_string();
        for came in PREFIX.len()..line.len() {
            let error = parse(&line[..came]).unwrap_err();
            assert!(matches!(error, TicketError::Short { came: seen, .. } if seen == came), "{error}");
        }
        let error = parse(&line[..100]).unwrap_err().to_string();
        assert_eq!(error, format!("the ticket is cut short: 100 of {} characters came", line.len()));
    }

    #[test]
    fn what_follows_a_ticket_is_a_typo() {
        let line = example().to_string();
        let whole = line.len();
        for more in ["a", "aaaaaaaa", &line[6..], &"a".repeat(100_000)] {
            assert_eq!(parse(&format!("{line}{more}")), Err(TicketError::Long { whole }));
        }
    }

    #[test]
    fn other_text_is_told_from_a_ticket() {
        assert_eq!(parse(" \n\"\""), Err(TicketError::Empty));
        for text in ["ketch", "hello", "/ip4/127.0.0.1", "größe und mehr", "ketch\u{1b}"] {
            assert_eq!(parse(text), Err(TicketError::Foreign), "{text}");
        }
        let typo = TicketError::Character { place: 9, character: '\u{1b}' };
        assert_eq!(parse("ketch1ab\u{1b}"), Err(typo.clone()));
        assert_eq!(
            typo.to_string(),
            "the ticket has a typo: character 9 is \"\\u{1b}\", which no ticket contains"
        );
    }

    #[test]
    fn a_newer_ticket_is_told_from_a_typo() {
        let newer = forged(2, b"what version two means by its body");
        assert_eq!(parse(&newer), Err(TicketError::Newer(2)));
        assert_eq!(parse(&newer.replace('W', "X")), Err(TicketError::Checksum));
    }

    #[test]
    fn an_address_this_version_cannot_read_is_skipped() {
        let mut body = encode_body(&example());
        // Protocol code 0x7f_ff_ff is assigned to nothing.
        push_field(&mut body, &[0xff, 0xff, 0xff, 0x03, 1, 2, 3]);
        push_field(&mut body, &[]);
        push_field(&mut body, address("/ip4/192.0.2.8/tcp/1").as_ref());
        let read = parse(&forged(1, &body)).unwrap();
        assert_eq!(read.addresses()[..2], example().addresses()[..]);
        assert_eq!(read.addresses()[2..], [address("/ip4/192.0.2.8/tcp/1")]);
    }

    #[test]
    fn a_body_that_lies_is_refused() {
        let good = encode_body(&example());
        let mut flags = good.clone();
        flags[0] |= 0x80;
        let mut crowd = good.clone();
        (0..15).for_each(|_| push_field(&mut crowd, address("/tcp/1").as_ref()));
        let no_peer = [&[FLAG_MULTIHASH, 3, 1, 2, 3][..], &[0; 16]].concat();
        for body in [&flags[..], &crowd, &no_peer, &[], &good[..40], &[&good[..], &[9, 1]].concat()] {
            let error = parse(&forged(1, body)).unwrap_err();
            assert!(matches!(error, TicketError::Malformed(_)), "{error}");
        }
    }

    #[test]
    fn every_shortened_body_is_read_or_refused() {
        let body = encode_body(&example());
        for length in 0..body.len() {
            let _ = parse(&forged(1, &body[..length]));
        }
    }

    #[test]
    fn addresses_are_said_once_and_without_the_peer() {
        let own = address("/ip4/192.0.2.7/tcp/1").with_p2p(peer(1)).unwrap();
        let relayed = address("/ip4/192.0.2.9/tcp/2").with_p2p(peer(2)).unwrap();
        let overlong: Multiaddr = format!("/dns/{}/tcp/1", "x".repeat(255)).parse().unwrap();
        let given = [own.clone(), own, relayed.clone(), overlong, Multiaddr::empty()];
        let ticket = Ticket::new(peer(1), given, Secret::from_bytes([0; SECRET_BYTES]), None);
        assert_eq!(ticket.addresses(), [address("/ip4/192.0.2.7/tcp/1"), relayed]);
    }

    #[test]
    fn a_ticket_expires_in_its_second() {
        let ticket = example();
        assert!(!ticket.is_expired(1_799_999_999));
        assert!(ticket.is_expired(1_800_000_000));
        assert!(!Ticket::new(peer(1), [], ticket.secret, None).is_expired(u64::MAX));
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        let shown = format!("{:?}", example());
        assert!(shown.contains("Secret(..)"), "{shown}");
    }
}
