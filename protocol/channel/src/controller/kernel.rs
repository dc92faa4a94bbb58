//! Setting a TCP socket's congestion controller, and why that can fail.

use std::{io, os::fd::AsFd};

use crate::settings::Controller;

/// Why a connection does not have the congestion controller that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The system has none of that name, or does not load it for a plain user.
    #[error("the system has no congestion controller {0} for tcp")]
    Missing(Controller),
    /// The system has it and keeps it from plain users.
    #[error("the system does not let a plain user choose the congestion controller {0} for tcp")]
    Forbidden(Controller),
    /// It was set, and another one is there.
    #[error("the congestion controller {asked} was set for tcp, and the system uses {got}")]
    Ignored {
        /// What was set.
        asked: Controller,
        /// What was read back.
        got: String,
    },
    /// The transport leaves no choice.
    #[error("the congestion controller {asked} cannot be chosen: {why}")]
    NoChoice {
        /// What was asked for.
        asked: Controller,
        /// Why there is no choice.
        why: &'static str,
    },
    /// The socket failed otherwise.
    #[error("setting the congestion controller {asked} for tcp: {cause}")]
    Failed {
        /// What was asked for.
        asked: Controller,
        /// What the system says.
        cause: io::Error,
    },
}

impl ControllerError {
    /// What changes it, as a command of this machine's administrator.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Missing(Controller::Cubic) => Some("as root: `modprobe tcp_cubic`"),
            Self::Missing(Controller::Bbr) => Some("as root: `modprobe tcp_bbr`"),
            Self::Forbidden(Controller::Cubic) => Some(
                "as root: `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"$(sysctl -n net.ipv4.tcp_allowed_congestion_control) cubic\"`",
            ),
            Self::Forbidden(Controller::Bbr) => Some(
                "as root: `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"$(sysctl -n net.ipv4.tcp_allowed_congestion_control) bbr\"`",
            ),
            Self::Ignored { .. } | Self::NoChoice { .. } | Self::Failed { .. } => None,
        }
    }

    fn of(asked: Controller, cause: io::Error) -> Self {
        if cause.kind() == io::ErrorKind::NotFound {
            return Self::Missing(asked);
        }
        if cause.kind() == io::ErrorKind::PermissionDenied {
            return Self::Forbidden(asked);
        }
        Self::Failed { asked, cause }
    }
}

/// Whether this process may give TCP sockets the controller.
pub fn check_controller(controller: Controller) -> Result<(), ControllerError> {
    let socket = system::scratch_socket().map_err(|cause| ControllerError::of(controller, cause))?;
    set(&socket, controller)
}

/// Sets the controller of a TCP socket, at any time, and reads it back.
pub(crate) fn set(socket: impl AsFd, controller: Controller) -> Result<(), ControllerError> {
    system::set(&socket, controller).map_err(|cause| ControllerError::of(controller, cause))?;
    let got = name(&socket).map_err(|cause| ControllerError::of(controller, cause))?;
    if got == controller.name() { Ok(()) } else { Err(ControllerError::Ignored { asked: controller, got }) }
}

/// The name of the controller that a TCP socket has.
pub(crate) fn name(socket: impl AsFd) -> io::Result<String> {
    system::name(socket)
}

#[cfg(target_os = "linux")]
mod system {
    use std::{
        io,
        os::fd::{AsFd, OwnedFd},
    };

    use rustix::net::{
        AddressFamily, SocketFlags, SocketType, ipproto, socket_with,
        sockopt::{set_tcp_congestion, tcp_congestion},
    };

    use crate::settings::Controller;

    pub(super) fn set(socket: impl AsFd, controller: Controller) -> io::Result<()> {
        Ok(set_tcp_congestion(socket, controller.name())?)
    }

    pub(super) fn name(socket: impl AsFd) -> io::Result<String> {
        Ok(tcp_congestion(socket)?)
    }

    pub(super) fn scratch_socket() -> io::Result<OwnedFd> {
        let open = |family| socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP));
        Ok(open(AddressFamily::INET).or_else(|_| open(AddressFamily::INET6))?)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::{
        io,
        os::fd::{AsFd, OwnedFd},
    };

    use crate::settings::Controller;

    pub(super) fn set(_: impl AsFd, _: Controller) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn name(_: impl AsFd) -> io::Result<String> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn scratch_socket() -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_has_a_remedy() {
        let refused = |kind: io::ErrorKind| ControllerError::of(Controller::Bbr, kind.into());
        let missing = refused(io::ErrorKind::NotFound);
        assert_eq!(missing.to_string(), "the system has no congestion controller bbr for tcp");
        assert!(missing.remedy().unwrap().contains("modprobe tcp_bbr"));
        let forbidden = refused(io::ErrorKind::PermissionDenied);
        assert!(forbidden.remedy().unwrap().contains("tcp_allowed_congestion_control"));
        assert!(matches!(refused(io::ErrorKind::OutOfMemory), ControllerError::Failed { .. }));
    }
}
