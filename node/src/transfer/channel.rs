//! What the connection of a session is asked for, and what it has on either side.

use ketch_protocol::message::Congestion;

use crate::swarm::{Connection, Controller, Effective, PathStatistics, TransportKind};

/// What the first connection of a session was asked for, and got.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelReport {
    /// How its bytes travelled.
    pub transport: TransportKind,
    /// The congestion controller that was asked for on this side.
    pub asked: Option<Controller>,
    /// What this side has; `None` where its transport does not tell.
    pub effective: Option<Effective>,
    /// What the other side says that it has.
    pub peer: Option<Congestion>,
    /// What was known of the path at the end of the session.
    pub statistics: Option<PathStatistics>,
}

impl ChannelReport {
    /// What is known before anything was said.
    pub(super) fn of(connection: &Connection) -> Self {
        Self {
            transport: connection.transport(),
            asked: connection.asked_controller(),
            effective: effective(connection),
            peer: None,
            statistics: None,
        }
    }

    /// Gives this side's end the controller that the other side wishes for, where that can be; what it has then.
    pub(super) fn grant(&mut self, connection: &Connection, wish: Option<Controller>) -> Congestion {
        let problem = wish.and_then(|wish| set_controller(connection, wish).err()).unwrap_or_default();
        if !problem.is_empty() {
            tracing::warn!(peer = %connection.peer(), problem, "the peer wishes for another congestion controller");
        }
        self.effective = effective(connection);
        let controller = self.effective.as_ref().map(|effective| effective.controller.clone());
        Congestion { controller: controller.unwrap_or_default(), problem }
    }

    /// Notes what is known of the path, before the connection is left.
    pub(super) fn measure(&mut self, connection: &Connection) {
        self.statistics = connection.gauge().and_then(|gauge| gauge.statistics().ok());
    }
}

/// What a connection has now, where its transport tells.
pub(super) fn effective(connection: &Connection) -> Option<Effective> {
    connection.gauge().and_then(|gauge| gauge.effective().ok())
}

/// Gives this side's end of a connection another controller, or says why it can't.
pub(super) fn set_controller(connection: &Connection, wish: Controller) -> Result<(), String> {
    let Some(gauge) = connection.gauge() else {
        return Err(format!("{} leaves no choice of it here", connection.transport()));
    };
    gauge.set_controller(wish).map_err(|error| match error.remedy() {
        Some(remedy) => format!("{error} ({remedy})"),
        None => error.to_string(),
    })
}
