//! The time of day as rows have it.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: u64 = 86_400;

/// UTC in the format of RFC 3339, whole seconds.
pub(super) fn rfc3339(time: SystemTime) -> String {
    let Moment { year, month, day, hour, minute, second } = moment(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// UTC as part of a name.
pub(super) fn compact(time: SystemTime) -> String {
    let Moment { year, month, day, hour, minute, second } = moment(time);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

struct Moment {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

/// A clock before 1970 is taken for 1970.
fn moment(time: SystemTime) -> Moment {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / DAY_S, seconds % DAY_S);
    let (year, month, day) = civil(days);
    Moment { year, month, day, hour: rest / 3_600, minute: rest / 60 % 60, second: rest % 60 }
}

/// The Gregorian date of so many days after 1970-01-01. Years are counted from March, so that a leap day is a year's last
/// (H. Hinnant, chrono-compatible low-level date algorithms, `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    const FROM_0000_03_01: u64 = 719_468;
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + FROM_0000_03_01;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn known_moments_are_right() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_758_642_462, "2025-09-23T15:47:42Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
        assert_eq!(compact(UNIX_EPOCH + Duration::from_secs(951_782_400)), "20000229-000000");
    }
}
