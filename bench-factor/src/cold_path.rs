//! The model: how long a perfect program takes to copy over a cold path, so that a measured time can be judged
//! without another program beside it.
//!
//! It dials over TCP with TLS 1.3, asks at once, and sends without a pause as soon as it is asked. Its congestion window
//! starts at ten segments (RFC 6928), doubles every round trip (slow start, RFC 5681), and stays at what the path
//! holds once it is there. Nothing is lost, nothing is scanned, hashed, written or said beside the content.

use std::time::Duration;

/// Wire bytes of one segment: an IPv4 packet that fills a link of 1,500 bytes.
const SEGMENT_WIRE_BYTES: f64 = 1_500.0;

/// Bytes of it that TLS gets: without the headers of IPv4 and TCP, with timestamps.
const SEGMENT_BYTES: f64 = 1_448.0;

/// What TLS adds to a full record of 16 KiB: its header, the type of content and the tag (RFC 8446, 5.2).
const RECORD_BYTES: f64 = 16_384.0;
const SEALED_RECORD_BYTES: f64 = RECORD_BYTES + 5.0 + 1.0 + 16.0;

/// Segments that are sent before the first is acknowledged.
const INITIAL_SEGMENTS: f64 = 10.0;

/// Round trips until the first content arrives: one each for TCP and TLS, one for the question and the answer.
const ROUND_TRIPS_TO_CONTENT: f64 = 3.0;

/// A path as the model sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ColdPath {
    /// Of the bottleneck, counted in IP packets.
    pub(crate) bits_per_second: u64,
    /// Of an empty path.
    pub(crate) round_trip: Duration,
}

impl ColdPath {
    /// Seconds from the start of the dial until the last of `content_bytes` has arrived.
    pub(crate) fn ideal_s(self, content_bytes: u64) -> f64 {
        let round_trip_s = self.round_trip.as_secs_f64();
        let rate = self.content_bytes_per_s();
        let mut left = content_bytes as f64;
        let mut window = INITIAL_SEGMENTS * SEGMENT_BYTES * RECORD_BYTES / SEALED_RECORD_BYTES;
        let mut elapsed_s = ROUND_TRIPS_TO_CONTENT * round_trip_s;
        while window < rate * round_trip_s && window < left {
            left -= window;
            window *= 2.0;
            elapsed_s += round_trip_s;
        }
        elapsed_s + left / rate
    }

    /// Content that the full bottleneck carries.
    fn content_bytes_per_s(self) -> f64 {
        let wire_bytes = self.bits_per_second as f64 / 8.0;
        wire_bytes * SEGMENT_BYTES / SEGMENT_WIRE_BYTES * RECORD_BYTES / SEALED_RECORD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(mbit: u64, round_trip_ms: u64) -> ColdPath {
        ColdPath { bits_per_second: mbit * 1_000_000, round_trip: Duration::from_millis(round_trip_ms) }
    }

    #[test]
    fn a_short_answer_takes_the_round_trips_alone() {
        let one_byte_s = path(200, 141).ideal_s(1);
        assert!((one_byte_s - 0.423).abs() < 1e-3, "{one_byte_s}");
    }

    #[test]
    fn without_delay_it_is_the_rate_alone() {
        // 268,435,456 bytes are 16,384 records, at 1,448 of 1,500 bytes.
        let expected_s = 16_384.0 * 16_406.0 / 1_448.0 * 1_500.0 * 8.0 / 200e6;
        assert!((path(200, 0).ideal_s(268_435_456) - expected_s).abs() < 1e-6);
    }

    #[test]
    fn each_doubling_costs_a_round_trip() {
        // 10 + 20 + 40 segments, and one more byte.
        let window = 14_480.0 * 16_384.0 / 16_406.0;
        let path = path(1_000, 100);
        let third_s = path.ideal_s((window * 3.0) as u64 - 1);
        let fourth_s = path.ideal_s((window * 3.0) as u64 + 1);
        assert!((0.099..0.101).contains(&(fourth_s - third_s)), "{third_s} {fourth_s}");
    }

    #[test]
    fn slow_start_is_most_of_it_where_the_rate_is_high() {
        // Within 3 % of what an independent calculation gave.
        for (mbit, expected_s) in [(100, 24.2), (200, 12.8), (500, 6.0), (1_000, 3.9)] {
            let ideal_s = path(mbit, 141).ideal_s(268_435_456);
            assert!((ideal_s / expected_s - 1.0).abs() < 0.03, "{mbit}: {ideal_s}");
        }
    }
}
