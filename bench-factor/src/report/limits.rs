//! What a run may hold, so that a file that is no run is refused and not read without end.

use std::ops::RangeInclusive;

/// Rows of a run. The largest plan has 16 conditions in 16 rounds; a hundred such runs are no longer one.
pub(crate) const MAX_ROWS: usize = 25_600;

/// Bytes of one row. Its longest parts, a curve of 900 s and traces of both hosts, take 200 KiB.
pub(crate) const MAX_ROW_BYTES: u64 = 4 << 20;

/// Bytes of a plan, which a person writes.
pub(crate) const MAX_PLAN_BYTES: u64 = 1 << 20;

/// The highest round. The chances of more would go beyond what a double holds.
pub(crate) const MAX_ROUND: u32 = 1_000;

/// Seconds that a cell can have taken: no clock of a study tells less, and none waits a year. Speeds and their
/// logarithms are then numbers.
pub(crate) const SECONDS: RangeInclusive<f64> = 1e-6..=3.2e7;

/// Characters of a condition's or a contrast's name, which stands in plots and tables.
pub(crate) const MAX_NAME_CHARS: usize = 80;
