//! The congestion controllers that an observation may ask for: those of the stack that it is made on, and ketch's own
//! BBR.

use std::{fmt, str::FromStr};

use ketch_channel::{QuicBbr, TransportKind, check_controller};
use ketch_protocol::path::escape;

/// A congestion controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    Cubic,
    /// The kernel's over TCP, that of the QUIC library over QUIC.
    Bbr,
    /// BBRv3 as `ketch-channel` has it, over QUIC only.
    Bbr3,
}

/// A word that names no controller of the study.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is no congestion controller, use cubic, bbr or bbr3", escape(.0.as_bytes()))]
pub(crate) struct ControllerNameError(String);

impl Controller {
    /// Its name in a plan.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Bbr3 => "bbr3",
        }
    }

    /// What a channel is asked for.
    pub(super) fn of_channel(self) -> (ketch_channel::Controller, QuicBbr) {
        match self {
            Self::Cubic => (ketch_channel::Controller::Cubic, QuicBbr::Library),
            Self::Bbr => (ketch_channel::Controller::Bbr, QuicBbr::Library),
            Self::Bbr3 => (ketch_channel::Controller::Bbr, QuicBbr::Own),
        }
    }

    /// What a connection says when it is asked what it has.
    pub(super) fn name_of_channel(self, transport: TransportKind) -> &'static str {
        match (self.of_channel(), transport) {
            ((ketch_channel::Controller::Bbr, bbr), TransportKind::Quic) => bbr.name(),
            ((controller, _), TransportKind::Quic | TransportKind::Tcp) => controller.name(),
        }
    }

    /// Fails, with the reason, where a connection over `transport` cannot have it here.
    pub(super) fn check(self, transport: TransportKind) -> Result<(), String> {
        match (transport, self) {
            (TransportKind::Quic, Self::Cubic | Self::Bbr | Self::Bbr3) => Ok(()),
            (TransportKind::Tcp, Self::Cubic | Self::Bbr) => {
                check_controller(self.of_channel().0).map_err(|error| error.to_string())
            }
            (TransportKind::Tcp, Self::Bbr3) => Err(NOT_OVER_TCP.into()),
        }
    }
}

/// Why a condition makes no sense.
const NOT_OVER_TCP: &str = "bbr3 is ketch's own BBR, for QUIC alone: over tcp use cubic or bbr";

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Controller {
    type Err = ControllerNameError;

    fn from_str(word: &str) -> Result<Self, ControllerNameError> {
        let all = [Self::Cubic, Self::Bbr, Self::Bbr3];
        let named = all.into_iter().find(|controller| controller.name() == word);
        named.ok_or_else(|| ControllerNameError(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_read_back_from_its_name() {
        for controller in [Controller::Cubic, Controller::Bbr, Controller::Bbr3] {
            assert_eq!(controller.to_string().parse(), Ok(controller));
        }
        let error = "reno\n".parse::<Controller>().unwrap_err().to_string();
        assert_eq!(error, "\"reno\\n\" is no congestion controller, use cubic, bbr or bbr3");
    }

    #[test]
    fn a_connection_is_asked_for_what_its_stack_has_or_for_our_own() {
        let names = [Controller::Cubic, Controller::Bbr, Controller::Bbr3]
            .map(|controller| controller.name_of_channel(TransportKind::Quic));
        assert_eq!(names, ["cubic", "library-bbr", "bbr"]);
        assert_eq!(Controller::Bbr.name_of_channel(TransportKind::Tcp), "bbr");
    }

    #[test]
    fn our_own_is_to_be_had_over_quic_alone() {
        assert_eq!(Controller::Bbr3.check(TransportKind::Quic), Ok(()));
        assert_eq!(Controller::Bbr3.check(TransportKind::Tcp), Err(NOT_OVER_TCP.to_owned()));
    }
}
