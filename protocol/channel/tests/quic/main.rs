//! Our QUIC transport meets itself and stock `libp2p-quic` on loopback, without a swarm.

mod dialing;
mod ends;
mod gauge;
mod listening;
mod punching;
mod streams;
