//! The worked example of `docs/wire-format.md`: built here, kept in `fixtures/wire/`, shown in the document.
//! All three must agree, and so must the document's tables with the code.

mod decoding;
mod document;
mod example;
mod sessions;

use ketch_protocol::introduction;

use crate::example::{
    a_connection, bare_records, control_from_receiver, data, delta, frames, others, said_by_sender,
};

const FROM_RECEIVER: &str = include_str!("../../../fixtures/wire/control-from-receiver.hex");
const FROM_SENDER: &str = include_str!("../../../fixtures/wire/control-from-sender.hex");
const DATA: &str = include_str!("../../../fixtures/wire/data.hex");
const DELTA: &str = include_str!("../../../fixtures/wire/delta.hex");
const OTHERS: &str = include_str!("../../../fixtures/wire/other-messages.hex");
const CONNECTIONS: &str = include_str!("../../../fixtures/wire/connections.hex");
const INTRODUCTION: &str = include_str!("../../../fixtures/wire/introduction.hex");
const BARE: &str = include_str!("../../../fixtures/wire/bare.hex");

/// Bytes of a fixture: pairs of hexadecimal digits; `#` begins a comment.
fn bytes_of(fixture: &str) -> Vec<u8> {
    let digits: String =
        fixture.lines().filter_map(|line| line.split('#').next()).flat_map(str::split_whitespace).collect();
    assert!(digits.len().is_multiple_of(2));
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every fixture: its name, what is kept, and what the crate writes.
fn fixtures() -> [(&'static str, &'static str, Vec<u8>); 7] {
    [
        ("control-from-receiver", FROM_RECEIVER, control_from_receiver()),
        ("control-from-sender", FROM_SENDER, frames(&said_by_sender())),
        ("data", DATA, data()),
        ("delta", DELTA, delta()),
        ("other-messages", OTHERS, frames(&others())),
        ("connections", CONNECTIONS, a_connection()),
        ("bare", BARE, bare_records()),
    ]
}

#[test]
fn the_fixtures_are_what_the_crate_writes() {
    for (name, fixture, built) in fixtures() {
        assert_eq!(hex(&bytes_of(fixture)), hex(&built), "fixtures/wire/{name}.hex");
    }
}

#[test]
fn the_fixture_of_an_introduction_is_read_and_written_as_it_is() {
    let fixture = bytes_of(INTRODUCTION);
    let (mut rest, mut names) = (&fixture[..], Vec::new());
    while let Some((number, behind)) = rest.split_first_chunk() {
        let length = introduction::length(*number).unwrap();
        let message = introduction::decode(&behind[..length]).unwrap();
        assert_eq!(introduction::encode(&message), rest[..number.len() + length]);
        names.push(message.name());
        rest = &behind[length..];
    }
    assert_eq!(names, ["hello", "share", "proof", "welcome", "card", "thanks"]);
}

#[test]
#[ignore = "prints the bytes for whoever changes the format"]
#[allow(clippy::print_stdout)]
fn print_the_fixtures() {
    for (name, _, built) in fixtures() {
        println!("{name} {}", hex(&built));
    }
}
