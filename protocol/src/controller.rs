//! The congestion controllers that a session may ask for.

use std::{fmt, str::FromStr};

/// A congestion controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Controller {
    /// CUBIC (RFC 9438): slows down when something is lost.
    Cubic,
    /// BBR: goes by the rate and the round trips that it measures.
    Bbr,
}

/// A word that names no congestion controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is no congestion controller, use cubic or bbr", crate::path::escape(.0.as_bytes()))]
pub struct ControllerNameError(String);

impl Controller {
    /// Its name, as Linux knows it too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Controller {
    type Err = ControllerNameError;

    fn from_str(word: &str) -> Result<Self, ControllerNameError> {
        match word {
            "cubic" => Ok(Self::Cubic),
            "bbr" => Ok(Self::Bbr),
            other => Err(ControllerNameError(other.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_read_back_from_its_name() {
        for controller in [Controller::Cubic, Controller::Bbr] {
            assert_eq!(controller.to_string().parse(), Ok(controller));
        }
        assert_eq!(
            "reno\n".parse::<Controller>().unwrap_err().to_string(),
            "\"reno\\n\" is no congestion controller, use cubic or bbr"
        );
    }
}
