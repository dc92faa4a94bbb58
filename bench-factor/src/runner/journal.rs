//! The rows of a run on disk. A row is there for good once [`Journal::append`] has returned; a process that is killed
//! while it writes leaves a line that does not end, and that line is taken off when the journal is opened again.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::error::{RunError, run_io_error};
use crate::observation::{Observation, Outcome};

/// A process that was killed has its lock until what it was just starting has ended too.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// Between two tries for the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The open file. It is locked: two processes never write to the same run.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    rows: Vec<Observation>,
}

impl Journal {
    /// Opens the rows at `path`, or makes the file.
    pub(crate) fn open(path: &Path) -> Result<Self, RunError> {
        let error = run_io_error;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let mut file = file.map_err(error("open the rows", path))?;
        lock(&file, path, LOCK_LIMIT)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(error("read the rows", path))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rows = parse(&text[..whole], path)?;
        let repaired = file.set_len(whole as u64).and_then(|()| file.seek(std::io::SeekFrom::End(0)));
        repaired.map_err(error("take an unfinished line off", path))?;
        Ok(Self { file, path: path.to_owned(), rows })
    }

    /// Adds a row; returns when it is on the disk.
    pub(crate) fn append(&mut self, row: Observation) -> Result<(), RunError> {
        let mut line = serde_json::to_vec(&row).expect("a row has only text as keys");
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.map_err(run_io_error("write a row to", &self.path))?;
        self.rows.push(row);
        Ok(())
    }

    /// The latest attempt at a condition in a round.
    pub(crate) fn latest(&self, round: u32, condition: &str) -> Option<&Observation> {
        let attempts = self.rows.iter().filter(|row| row.round == round && row.condition == condition);
        attempts.max_by_key(|row| row.attempt)
    }

    /// The observations of a condition whose latest attempt has failed.
    pub(crate) fn failed(&self, condition: &str) -> Vec<Observation> {
        let of_condition = self.rows.iter().filter(|row| row.condition == condition && row.attempt == 1);
        let latest = of_condition.filter_map(|row| self.latest(row.round, condition));
        latest.filter(|row| matches!(row.outcome, Outcome::Failed { .. })).cloned().collect()
    }
}

/// Locks the rows for this process, waiting so long for another one.
fn lock(file: &File, path: &Path, limit: Duration) -> Result<(), RunError> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if began.elapsed() < limit => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => return Err(RunError::Busy(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(run_io_error("lock the rows", path)(source)),
        }
    }
}

fn parse(text: &[u8], path: &Path) -> Result<Vec<Observation>, RunError> {
    let lines = text.split(|byte| *byte == b'\n').zip(1..).filter(|(line, _)| !line.is_empty());
    let row = |(text, line)| {
        serde_json::from_slice(text).map_err(|source| RunError::Row { line, path: path.to_owned(), source })
    };
    lines.map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::observation::tests::observation;

    fn failed(condition: &str) -> Observation {
        Observation { outcome: Outcome::Failed { reason: "no".into() }, ..observation(condition, 1.0) }
    }

    #[test]
    fn rows_are_there_again_and_wherever_the_last_was_cut_the_others_are_whole() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("observations.jsonl");
        let rows = [observation("a", 1.0), observation("b", 2.0)];
        // given two rows
        let mut journal = Journal::open(&path).unwrap();
        rows.iter().for_each(|row| journal.append(row.clone()).unwrap());
        drop(journal);
        let text = fs::read(&path).unwrap();
        let first = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for length in first..text.len() {
            // when the second is cut
            fs::write(&path, &text[..length]).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            // then the first is there, and the second can be written again
            assert_eq!(journal.rows, &rows[..1]);
            journal.append(rows[1].clone()).unwrap();
            drop(journal);
            assert_eq!(fs::read(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_line_that_is_no_row_is_named_and_nothing_is_taken_off() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("observations.jsonl");
        fs::write(&path, "{}\ntorn").unwrap();
        let error = Journal::open(&path).unwrap_err().to_string();
        assert!(error.starts_with("line 1 of ") && error.ends_with(" is no row"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}\ntorn");
    }

    #[test]
    fn one_process_alone_is_at_a_run() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("observations.jsonl");
        let _journal = Journal::open(&path).unwrap();
        let second = File::open(&path).unwrap();
        assert!(matches!(lock(&second, &path, Duration::ZERO), Err(RunError::Busy(_))));
    }

    #[test]
    fn what_failed_is_tried_again_until_it_has_not() {
        let place = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(&place.path().join("rows")).unwrap();
        journal.append(failed("a")).unwrap();
        journal.append(failed("b")).unwrap();
        assert_eq!(journal.failed("a"), [failed("a")]);
        journal.append(Observation { attempt: 2, ..failed("a") }).unwrap();
        assert_eq!(journal.failed("a")[0].attempt, 2);
        journal.append(Observation { attempt: 3, ..observation("a", 1.0) }).unwrap();
        assert!(journal.failed("a").is_empty());
        assert_eq!(journal.latest(1, "a").map(|row| row.attempt), Some(3));
    }
}
