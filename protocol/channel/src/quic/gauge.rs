//! What one QUIC connection is asked, got and does.

use std::{io, sync::Arc};

use noq::{Connection, PathId, WeakConnectionHandle};

use super::{controller::Choice, socket::UdpProperties};
use crate::{
    controller::ControllerError,
    settings::{Controller, Effective, PathStatistics},
};

/// Tells of one connection while it lives. Cheap to clone; it keeps nothing open.
#[derive(Debug, Clone)]
pub(crate) struct QuicGauge {
    connection: WeakConnectionHandle,
    choice: Arc<Choice>,
    socket: Arc<UdpProperties>,
}

impl QuicGauge {
    /// `None` once the connection has ended.
    pub(super) fn new(connection: &Connection, socket: Arc<UdpProperties>) -> Option<Self> {
        Some(Self { connection: connection.weak_handle(), choice: Choice::of(connection)?, socket })
    }

    pub(crate) fn effective(&self) -> io::Result<Effective> {
        self.living()?;
        Ok(Effective {
            controller: self.choice.name().to_owned(),
            send_buffer: self.socket.send_buffer,
            receive_buffer: self.socket.receive_buffer,
            gso: Some(self.socket.gso),
            gro: Some(self.socket.gro),
        })
    }

    pub(crate) fn statistics(&self) -> io::Result<PathStatistics> {
        let path = self.living()?.path_stats(PathId::ZERO).ok_or(io::ErrorKind::NotConnected)?;
        Ok(PathStatistics {
            rtt: Some(path.rtt),
            window_bytes: Some(path.cwnd),
            sent_packets: Some(path.sent_packets),
            lost_packets: Some(path.lost_packets),
            rate_bytes_per_s: path.bandwidth_estimate.map(|bits| bits / 8),
        })
    }

    /// In force from the next acknowledgement on; the window is carried over.
    pub(crate) fn set_controller(&self, controller: Controller) -> Result<(), ControllerError> {
        self.living().map_err(|cause| ControllerError::Failed { asked: controller, cause })?;
        self.choice.want(controller);
        Ok(())
    }

    fn living(&self) -> io::Result<Connection> {
        let connection = self.connection.upgrade().filter(|connection| connection.close_reason().is_none());
        connection.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}
