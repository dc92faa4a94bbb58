//! [`Lifetime`]: how long an offer stands, as a person writes it after `--expires`.

use std::{fmt, num::ParseIntError, str::FromStr};

use ketch_protocol::path::escape;

/// How long an offer stands, counted from when it is made or reopened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// This many seconds, at least one.
    Seconds(u64),
    /// Until its uses are spent.
    Unlimited,
}

impl Lifetime {
    /// A day: long enough for someone in another time zone to read the message with the ticket, short
    /// enough that a ticket found later in a chat log opens nothing.
    pub const DEFAULT: Self = Self::Seconds(24 * 60 * 60);

    /// An hour, of what two people do together: codes, and the tickets of `pair`.
    pub const OF_INVITATION: Self = Self::Seconds(60 * 60);

    /// The Unix second at which something made at `now_s` expires; `None` if it never does.
    pub fn expires_s(self, now_s: u64) -> Option<u64> {
        match self {
            Self::Seconds(seconds) => Some(now_s.saturating_add(seconds)),
            Self::Unlimited => None,
        }
    }
}

/// Why text is not a lifetime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LifetimeError {
    /// A number alone.
    #[error("\"{0}\" has no unit: write {0}s, {0}m, {0}h or {0}d")]
    NoUnit(String),
    /// Neither a number with a unit nor `never`.
    #[error("\"{0}\" is not a lifetime: write a number and s, m, h or d, such as 90m, or \"never\"")]
    Form(String),
    /// Nothing could be fetched in no time.
    #[error("\"{0}\" would expire at once")]
    Zero(String),
    /// Does not fit the clock.
    #[error("\"{0}\" is too long: write \"never\"")]
    Long(String),
}

impl FromStr for Lifetime {
    type Err = LifetimeError;

    /// Reads `90s`, `15m`, `1h`, `7d` or `never`.
    fn from_str(text: &str) -> Result<Self, LifetimeError> {
        if text == "never" {
            return Ok(Self::Unlimited);
        }
        let shown = || escape(text.as_bytes()).to_string();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit_s = match unit {
            _ if number.is_empty() => return Err(LifetimeError::Form(shown())),
            "" => return Err(LifetimeError::NoUnit(shown())),
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            "d" => 24 * 60 * 60,
            _ => return Err(LifetimeError::Form(shown())),
        };
        let count: u64 = number.parse().map_err(|_: ParseIntError| LifetimeError::Long(shown()))?;
        match count.checked_mul(unit_s) {
            Some(0) => Err(LifetimeError::Zero(shown())),
            Some(seconds) => Ok(Self::Seconds(seconds)),
            None => Err(LifetimeError::Long(shown())),
        }
    }
}

impl fmt::Display for Lifetime {
    /// In the largest unit that needs no fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unlimited => f.write_str("never"),
            Self::Seconds(s) if s.is_multiple_of(86_400) => write!(f, "{}d", s / 86_400),
            Self::Seconds(s) if s.is_multiple_of(3_600) => write!(f, "{}h", s / 3_600),
            Self::Seconds(s) if s.is_multiple_of(60) => write!(f, "{}m", s / 60),
            Self::Seconds(s) => write!(f, "{s}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_a_unit_is_that_many_seconds() {
        let cases = [("1s", 1), ("15m", 900), ("1h", 3_600), ("24h", 86_400), ("007d", 604_800)];
        for (text, seconds) in cases {
            assert_eq!(text.parse(), Ok(Lifetime::Seconds(seconds)), "{text}");
        }
        assert_eq!("never".parse(), Ok(Lifetime::Unlimited));
    }

    #[test]
    fn what_is_no_lifetime_is_named_with_a_way_out() {
        let form = |text: &str| LifetimeError::Form(text.into());
        let cases = [
            ("", form("")),
            ("h", form("h")),
            ("-1h", form("-1h")),
            ("1h30m", form("1h30m")),
            ("1w", form("1w")),
            ("1H", form("1H")),
            ("1 h", form("1 h")),
            ("1.5h", form("1.5h")),
            ("\u{1b}[2J", form("\\u{1b}[2J")),
            ("30", LifetimeError::NoUnit("30".into())),
            ("0s", LifetimeError::Zero("0s".into())),
            ("99999999999999999999s", LifetimeError::Long("99999999999999999999s".into())),
            ("18446744073709551615m", LifetimeError::Long("18446744073709551615m".into())),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Lifetime>(), Err(error), "{text:?}");
        }
        assert_eq!(
            LifetimeError::NoUnit("30".into()).to_string(),
            "\"30\" has no unit: write 30s, 30m, 30h or 30d"
        );
    }

    #[test]
    fn a_lifetime_is_shown_as_it_is_written() {
        for text in ["59s", "90m", "1h", "7d", "never"] {
            assert_eq!(text.parse::<Lifetime>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn expiry_is_counted_from_now_and_does_not_wrap() {
        assert_eq!(Lifetime::Seconds(60).expires_s(1_000), Some(1_060));
        assert_eq!(Lifetime::Seconds(u64::MAX).expires_s(1_000), Some(u64::MAX));
        assert_eq!(Lifetime::Unlimited.expires_s(1_000), None);
    }
}
