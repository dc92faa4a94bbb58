//! The rows of a run, read and checked once: past this point every number makes sense and every condition is one.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
};

use serde::de::IgnoredAny;

use super::{
    error::{ReportError, io_error},
    limits::{MAX_NAME_CHARS, MAX_ROUND, MAX_ROW_BYTES, MAX_ROWS, SECONDS},
};
use crate::observation::{Observation, Outcome, Progress, SCHEMA};

/// All rows of one run in the order of rounds, positions and attempts.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<Observation>,
    /// Whether the last line was cut, as when the run is killed while it writes; it is no row then.
    pub(crate) cut: bool,
}

/// Reads the rows at `path`.
pub(crate) fn read(path: &Path) -> Result<Rows, ReportError> {
    let file = File::open(path).map_err(io_error("read the rows", path))?;
    read_from(BufReader::new(file), path)
}

fn read_from(mut file: impl std::io::BufRead, path: &Path) -> Result<Rows, ReportError> {
    let mut reading = Reading { path, first: None, conditions: BTreeMap::new(), rows: BTreeMap::new() };
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let taken = file.by_ref().take(MAX_ROW_BYTES + 1).read_until(b'\n', &mut line);
        let length = taken.map_err(io_error("read the rows", path))?;
        if length as u64 > MAX_ROW_BYTES || number > MAX_ROWS {
            let allowed = format!("{MAX_ROWS} rows of at most {MAX_ROW_BYTES} bytes");
            return Err(ReportError::TooLong { path: path.to_owned(), allowed });
        }
        match line.last() {
            None => return reading.end(false),
            Some(b'\n') => reading.take(&line, number)?,
            Some(_) => return reading.last(&line, number),
        }
    }
    reading.end(false)
}

/// What one row may not contradict.
struct Reading<'a> {
    path: &'a Path,
    first: Option<String>,
    conditions: BTreeMap<String, Observation>,
    rows: BTreeMap<(u32, String, u32), Observation>,
}

impl Reading<'_> {
    fn take(&mut self, line: &[u8], number: usize) -> Result<(), ReportError> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let row: Observation = serde_json::from_slice(line).map_err(|source| ReportError::Line {
            line: number,
            path: self.path.to_owned(),
            source,
        })?;
        let wrong = fault(&row).or_else(|| self.contradiction(&row));
        if let Some(wrong) = wrong {
            return Err(ReportError::Row { line: number, path: self.path.to_owned(), wrong });
        }
        self.first.get_or_insert_with(|| row.run.clone());
        self.conditions.entry(row.condition.clone()).or_insert_with(|| row.clone());
        self.rows.insert((row.round, row.condition.clone(), row.attempt), row);
        Ok(())
    }

    /// The last line, which does not end. It is a row all the same, if it is whole.
    fn last(mut self, line: &[u8], number: usize) -> Result<Rows, ReportError> {
        let is_whole = serde_json::from_slice::<IgnoredAny>(line).is_ok();
        if is_whole {
            self.take(line, number)?;
        }
        self.end(!is_whole)
    }

    /// What `row` says otherwise than an earlier one.
    fn contradiction(&self, row: &Observation) -> Option<String> {
        if let Some(first) = self.first.as_ref().filter(|first| **first != row.run) {
            return Some(format!("it belongs to the run {:?}, and the first row to {first:?}", row.run));
        }
        let key = (row.round, row.condition.clone(), row.attempt);
        if self.rows.contains_key(&key) {
            let (condition, round, attempt) = (&row.condition, row.round, row.attempt);
            return Some(format!("attempt {attempt} at {condition} in round {round} is there twice"));
        }
        let earlier = self.conditions.get(&row.condition)?;
        let same = (&earlier.factors, earlier.role, earlier.useful_bytes, earlier.files)
            == (&row.factors, row.role, row.useful_bytes, row.files);
        let condition = &row.condition;
        (!same).then(|| format!("{condition} has another role, factor or content than in an earlier row"))
    }

    fn end(self, cut: bool) -> Result<Rows, ReportError> {
        if self.rows.is_empty() {
            return Err(ReportError::Empty { path: self.path.to_owned() });
        }
        let mut rows: Vec<Observation> = self.rows.into_values().collect();
        rows.sort_by_key(|row| (row.round, row.position, row.attempt));
        Ok(Rows { rows, cut })
    }
}

/// What no row can say.
fn fault(row: &Observation) -> Option<String> {
    let Observation { schema, condition, round, attempt, useful_bytes, ideal_s, outcome, .. } = row;
    if *schema != SCHEMA {
        return Some(format!("its schema is {schema}, and this program reads {SCHEMA}"));
    }
    if !is_name(condition) {
        return Some(format!(
            "{condition:?} is not 1 to {MAX_NAME_CHARS} letters, digits, '.', '_', '+' and '-'"
        ));
    }
    if !(1..=MAX_ROUND).contains(round) || *attempt == 0 {
        return Some(format!(
            "round {round}, attempt {attempt}: both count from 1, rounds up to {MAX_ROUND}"
        ));
    }
    if *useful_bytes == 0 {
        return Some("no useful bytes have no speed".into());
    }
    let seconds = match outcome {
        Outcome::Complete(times) => Some(times.ready_s),
        Outcome::Censored { limit_s, .. } => Some(*limit_s),
        Outcome::Aborted { .. } | Outcome::Failed { .. } => None,
    };
    if let Some(seconds) = seconds.iter().chain(ideal_s).find(|seconds| !SECONDS.contains(seconds)) {
        return Some(format!("a time of {seconds} s is none"));
    }
    progress(outcome).windows(2).find_map(|pair| {
        let goes_back = pair[1].at_s < pair[0].at_s || pair[1].bytes < pair[0].bytes;
        goes_back.then(|| format!("its progress goes back after {} s", pair[0].at_s))
    })
}

/// How far a cell got that was stopped.
pub(crate) fn progress(outcome: &Outcome) -> &[Progress] {
    match outcome {
        Outcome::Censored { progress, .. } | Outcome::Aborted { progress, .. } => progress,
        Outcome::Complete(_) | Outcome::Failed { .. } => &[],
    }
}

/// Names of conditions stand in plots, tables and commands, so they are made of what is safe in all.
pub(crate) fn is_name(name: &str) -> bool {
    let safe = |character: char| character.is_ascii_alphanumeric() || "._+-".contains(character);
    (1..=MAX_NAME_CHARS).contains(&name.len()) && name.chars().all(safe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::tests::observation;

    fn read_text(text: &str) -> Result<Rows, ReportError> {
        read_from(text.as_bytes(), Path::new("observations.jsonl"))
    }

    fn line(row: &Observation) -> String {
        serde_json::to_string(row).unwrap() + "\n"
    }

    #[test]
    fn rows_are_sorted_whatever_order_they_were_written_in() {
        let first = observation("a", 1.0);
        let second = Observation { round: 2, ..first.clone() };
        let rows = read_text(&(line(&second) + "\n" + &line(&first))).unwrap();
        assert_eq!((rows.rows, rows.cut), (vec![first, second], false));
    }

    #[test]
    fn a_last_line_that_was_cut_is_no_row() {
        let first = observation("a", 1.0);
        let rows = read_text(&(line(&first) + "{\"schema\":1,\"ru")).unwrap();
        assert_eq!((rows.rows.len(), rows.cut), (1, true));
        let rows = read_text(line(&first).trim_end()).unwrap();
        assert_eq!((rows.rows.len(), rows.cut), (1, false), "only its end is missing");
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        assert!(matches!(read_text("\n"), Err(ReportError::Empty { .. })));
        let long = " ".repeat(MAX_ROW_BYTES as usize + 1);
        assert!(matches!(read_text(&long), Err(ReportError::TooLong { .. })));
    }

    #[test]
    fn a_row_that_makes_no_sense_is_refused_and_its_line_named() {
        let good = observation("a", 1.0);
        let backwards = [(2.0, 5), (3.0, 4)].map(|(at_s, bytes)| Progress { at_s, files: 0, bytes }).to_vec();
        let cases = [
            (Observation { schema: 2, ..good.clone() }, "its schema is 2"),
            (Observation { condition: "a|b".into(), ..good.clone() }, "\"a|b\" is not"),
            (Observation { condition: String::new(), ..good.clone() }, "\"\" is not"),
            (Observation { round: 0, ..good.clone() }, "round 0"),
            (Observation { round: MAX_ROUND + 1, ..good.clone() }, "round 1001"),
            (Observation { attempt: 0, ..good.clone() }, "attempt 0"),
            (Observation { useful_bytes: 0, ..good.clone() }, "no useful bytes"),
            (Observation { ideal_s: Some(0.0), ..good.clone() }, "a time of 0 s"),
            (observation("a", -1.0), "a time of -1 s"),
            (observation("a", 1e-320), "s is none"),
            (observation("a", f64::MAX), "s is none"),
            (
                Observation {
                    outcome: Outcome::Censored { limit_s: 9.0, progress: backwards },
                    ..good.clone()
                },
                "goes back after 2 s",
            ),
            (good.clone(), "attempt 1 at a in round 1 is there twice"),
            (Observation { run: "other".into(), round: 2, ..good.clone() }, "the run \"other\""),
            (Observation { files: 11, round: 2, ..good.clone() }, "a has another role"),
        ];
        for (row, expected) in cases {
            let error = read_text(&(line(&good) + &line(&row))).unwrap_err().to_string();
            assert!(
                error.starts_with("line 2 of observations.jsonl: ") && error.contains(expected),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_no_row_is_refused_with_its_line() {
        let error = read_text("{}\n").unwrap_err().to_string();
        assert_eq!(error, "line 1 of observations.jsonl is not an observation");
    }
}
