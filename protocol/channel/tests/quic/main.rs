//! Our QUIC transport meets itself and stock `libp2p-quic` on loopback, without a swarm.

#![allow(clippy::wildcard_enum_match_arm, reason = "a test waits for one of a transport's events")]

mod dialing;
mod ends;
mod gauge;
mod listening;
mod punching;
mod streams;
