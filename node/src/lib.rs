//! The node: it meets peers and moves file trees between them.
//!
//! [`swarm`] holds connections, [`tree`] the files, [`index`] what is known of them, [`trust`] who may have
//! what, [`introduction`] makes two peers known to each other, and [`transfer`] joins them into sessions. [`relay`] says
//! what a relay does for others. The command line is the first user of this library.

pub mod config;
pub mod identity;
pub mod index;
pub mod introduction;
pub mod relay;
pub mod state;
pub mod swarm;
pub mod transfer;
pub mod tree;
pub mod trust;
