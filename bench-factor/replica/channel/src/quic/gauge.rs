//! What one QUIC connection is asked, got and does.

use std::{io, sync::Arc};

use noq::{
    Connection,
    congestion::{Bbr, Cubic},
};

use super::socket::UdpProperties;
use crate::{
    controller::ControllerError,
    settings::{Controller, Effective, PathStatistics, QuicBbr},
};

/// Tells of one connection while it lives. Unlike that of `ketch-channel` it keeps the connection open.
#[derive(Debug, Clone)]
pub(crate) struct QuicGauge {
    connection: Connection,
    socket: Arc<UdpProperties>,
}

impl QuicGauge {
    /// Always there; the shared sources ask.
    pub(super) fn new(connection: &Connection, socket: Arc<UdpProperties>) -> Option<Self> {
        Some(Self { connection: connection.clone(), socket })
    }

    pub(crate) fn effective(&self) -> io::Result<Effective> {
        self.living()?;
        Ok(Effective {
            controller: self.controller().into(),
            send_buffer: self.socket.send_buffer,
            receive_buffer: self.socket.receive_buffer,
            gso: Some(self.socket.gso),
            gro: Some(self.socket.gro),
        })
    }

    pub(crate) fn statistics(&self) -> io::Result<PathStatistics> {
        self.living()?;
        let path = self.connection.stats().path;
        Ok(PathStatistics {
            rtt: Some(path.rtt),
            window_bytes: Some(path.cwnd),
            sent_packets: Some(path.sent_packets),
            lost_packets: Some(path.lost_packets),
            rate_bytes_per_s: None,
        })
    }

    pub(crate) fn set_controller(&self, asked: Controller) -> Result<(), ControllerError> {
        Err(ControllerError::NoChoice { asked, why: "quinn exchanges no controller" })
    }

    /// By what the library has, not by what it was told.
    fn controller(&self) -> &'static str {
        let state = self.connection.congestion_state().into_any();
        if state.is::<Cubic>() {
            Controller::Cubic.name()
        } else if state.is::<Bbr>() {
            QuicBbr::Library.name()
        } else {
            "unknown"
        }
    }

    fn living(&self) -> io::Result<()> {
        match self.connection.close_reason() {
            None => Ok(()),
            Some(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}
