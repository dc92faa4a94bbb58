//! How much of a copy is waiting for answers: the question of latency.
//!
//! [`mod@model`] runs the state machines of the protocol over a model of the wire, in virtual time; [`mod@real`] runs two
//! `ketch` over an emulated path. Both copy each [`work`] into nothing, over as many parallel streams or connections as
//! asked. `docs/benchmarks/latency.md` tells the method.

mod error;
mod model;
mod real;
mod table;
mod work;

use std::{fs, io, path::Path, time::Duration};

pub(crate) use self::{error::LatencyError, real::Setup, work::Work};
use self::{
    error::io_error,
    table::{Cell, Table},
};

/// How rows of the model are headed.
const MODEL_COLUMNS: [&str; 9] =
    ["work", "files", "content_bytes", "rtt_ms", "streams", "time_s", "flights", "idle_s", "speedup"];

/// How rows of two programs are headed.
const REAL_COLUMNS: [&str; 11] = [
    "work",
    "files",
    "content_bytes",
    "rtt_ms",
    "connections",
    "wall_s",
    "dial_s",
    "ready_s",
    "exits",
    "copy",
    "speedup",
];

/// What is copied, and over what.
#[derive(Debug, Clone)]
pub(crate) struct Matrix {
    /// What is copied.
    pub(crate) works: Vec<Work>,
    /// Over how many streams in the model, and over how many connections in reality.
    pub(crate) parallel: Vec<u8>,
    /// How long a byte and the answer to it are under way.
    pub(crate) round_trips: Vec<Duration>,
    /// Decides the trees.
    pub(crate) seed: u64,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    work: Work,
    round_trip: Duration,
    parallel: u8,
    seed: u64,
}

impl Matrix {
    fn conditions(&self) -> impl Iterator<Item = Condition> {
        let Self { works, parallel, round_trips, seed } = self;
        works.iter().flat_map(move |&work| {
            round_trips.iter().flat_map(move |&round_trip| {
                parallel.iter().map(move |&parallel| Condition { work, round_trip, parallel, seed: *seed })
            })
        })
    }
}

impl Condition {
    /// What makes its row comparable with others.
    fn cells(&self, files: u64, content_bytes: u64) -> Vec<Cell> {
        vec![
            Cell::Word(self.work.to_string()),
            Cell::Count(files),
            Cell::Count(content_bytes),
            Cell::Count(self.round_trip.as_millis() as u64),
            Cell::Count(self.parallel.into()),
        ]
    }

    /// Whether the two differ by nothing but how much is parallel.
    fn is_like(&self, other: &Self) -> bool {
        (self.work, self.round_trip) == (other.work, other.round_trip)
    }
}

/// Runs the model.
pub(crate) fn model(
    matrix: &Matrix,
    results: Option<&Path>,
    out: &mut impl io::Write,
) -> Result<(), LatencyError> {
    let mut table = Table::new(&MODEL_COLUMNS);
    let mut first = None;
    for condition in matrix.conditions() {
        let copy = model::copy(&condition)?;
        let mut cells = condition.cells(copy.files, copy.content_bytes);
        cells.extend([Cell::Seconds(copy.time), Cell::Count(copy.flights()), Cell::Seconds(copy.idle)]);
        cells.push(Cell::Ratio(speedup(&mut first, condition, copy.time)));
        table.push(cells);
    }
    show(&table, "model", results, out)
}

/// Runs two `ketch` for each condition. What was measured before something failed is kept.
pub(crate) fn real(
    matrix: &Matrix,
    setup: &Setup,
    results: Option<&Path>,
    out: &mut impl io::Write,
) -> Result<(), LatencyError> {
    let mut table = Table::new(&REAL_COLUMNS);
    let mut first = None;
    let measured = matrix.conditions().try_for_each(|condition| {
        let copy = setup.copy(&condition)?;
        let mut cells = condition.cells(copy.files, copy.content_bytes);
        cells.extend([copy.wall, copy.dial, copy.ready].map(Cell::Seconds));
        // Anything else is an error.
        cells.extend(["0/0", "equal"].map(|word| Cell::Word(word.into())));
        cells.push(Cell::Ratio(speedup(&mut first, condition, copy.wall)));
        table.push(cells);
        Ok(())
    });
    show(&table, "real", results, out)?;
    measured
}

/// How many times as fast as the first of those that are like it.
fn speedup(first: &mut Option<(Condition, Duration)>, condition: Condition, time: Duration) -> f64 {
    let (_, base) = match first {
        Some((of, base)) if of.is_like(&condition) => (*of, *base),
        Some(_) | None => *first.insert((condition, time)),
    };
    base.as_secs_f64() / time.as_secs_f64()
}

fn show(
    table: &Table,
    name: &str,
    results: Option<&Path>,
    out: &mut impl io::Write,
) -> Result<(), LatencyError> {
    write!(out, "{}", table.text()).map_err(io_error("write to", Path::new("standard output")))?;
    let Some(folder) = results else { return Ok(()) };
    fs::create_dir_all(folder).map_err(io_error("make the folder", folder))?;
    for (extension, text) in [("csv", table.csv()), ("md", table.markdown())] {
        let path = folder.join(format!("{name}.{extension}"));
        fs::write(&path, text).map_err(io_error("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_work_and_round_trip_has_a_first_of_its_own() {
        let ms = Duration::from_millis;
        let works = vec![Work::Large { bytes: 1 }, Work::Large { bytes: 2 }];
        let matrix = Matrix { works, parallel: vec![1, 4], round_trips: vec![ms(30), ms(150)], seed: 42 };
        let mut first = None;
        let times = [8, 2, 6, 3, 4, 4, 10, 1].map(ms);
        let speedups: Vec<f64> = matrix
            .conditions()
            .zip(times)
            .map(|(condition, time)| speedup(&mut first, condition, time))
            .collect();
        assert_eq!(speedups, [1.0, 4.0, 1.0, 2.0, 1.0, 1.0, 1.0, 10.0]);
    }
}
