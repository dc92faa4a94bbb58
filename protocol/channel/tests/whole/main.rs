//! The channels as whole transports, over loopback.

mod pair;
mod settings;
mod streams;
