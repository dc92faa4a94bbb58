//! Figures as a person reads them: decimal units, as every speed here is.

use std::time::Duration;

/// `268.4 MB`; whole bytes below 1,000.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    // 999.95 would be rounded to 1000.0.
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 entry`, `2 entries`.
pub(crate) fn entries(number: u64) -> String {
    format!("{} {}", count(number), if number == 1 { "entry" } else { "entries" })
}

/// `0.042 s`, `12.3 s`, `3:05`, `2:00:01`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.3} s", duration.as_secs_f64()),
        10..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

/// `7 s`, `3:05`: what is left is a guess, and tenths of it would only flicker.
pub(crate) fn rough(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..60 => format!("{} s", seconds.max(1)),
        _ => duration(left),
    }
}

/// `145.2 MB/s`.
pub(crate) fn rate(moved_bytes: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    format!("{}/s", bytes((moved_bytes as f64 / seconds) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_decimal_and_never_show_a_thousand() {
        let shown = [0, 999, 1000, 999_949, 999_950, 268_435_456, 1 << 40].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "268.4 MB", "1.1 TB"]);
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 999, 1000, 65536, 1_000_000].map(count), ["0", "999", "1,000", "65,536", "1,000,000"]);
        assert_eq!((entries(1), entries(2)), ("1 entry".into(), "2 entries".into()));
    }

    #[test]
    fn durations_grow_with_what_they_say() {
        let shown = [42, 12_345, 185_000, 7_201_000].map(|ms| duration(Duration::from_millis(ms)));
        assert_eq!(shown, ["0.042 s", "12.3 s", "3:05", "2:00:01"]);
        assert_eq!([300, 7_900, 185_000].map(|ms| rough(Duration::from_millis(ms))), ["1 s", "7 s", "3:05"]);
    }
}
