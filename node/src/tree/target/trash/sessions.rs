//! The sessions of a trash: how their folders are named, which one is the latest, and their logs.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{Dir, Mode, OFlags, openat},
    io::Errno,
};

use super::{
    LOG,
    log::{Action, Time},
};
use crate::tree::target::trouble::errno;

/// Ends the name of a session that was undone and of which something is still in the trash.
pub(super) const UNDONE: &str = "-undone";

/// Bytes of `<UTC time>-` in the name of a session.
const TIME_BYTES: usize = "20261130T130655Z-".len();

/// `<UTC time>-<session>`.
pub(super) fn name(now: SystemTime, session: &str) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z-{session}")
}

/// Year, month and day of a day counted from 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`, for days that are not before it).
fn date(day: u64) -> (u64, u64, u64) {
    let shifted = day + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day_of_month)
}

/// The name of the latest session that is not undone.
pub(super) fn latest(trash: &OwnedFd) -> Result<Option<String>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut latest: Option<String> = None;
    for found in Dir::new(openat(trash, ".", flags, Mode::empty())?)? {
        let found = found?;
        let Some(name) = found.file_name().to_str().ok().filter(|name| is_open(name)) else { continue };
        if latest.as_deref() < Some(name) {
            latest = Some(name.to_owned());
        }
    }
    Ok(latest)
}

fn is_open(name: &str) -> bool {
    let is_session = name.as_bytes().get(..TIME_BYTES).is_some_and(|time| time.ends_with(b"Z-"));
    is_session && !name.ends_with(UNDONE)
}

/// The log of a session, open.
pub(super) struct Log {
    file: File,
    pub(super) actions: Vec<Action>,
}

pub(super) fn read_log(session: &OwnedFd) -> Result<Log, Errno> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(session, LOG, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| errno(&error))?;
    Ok(Log { file, actions: Action::decode_all(&bytes) })
}

impl Log {
    /// Adds that the session is being undone, or one after it.
    pub(super) fn note_undoing(&mut self, at: Time) -> Result<(), Errno> {
        let undoing = Action::Undoing { at };
        // Behind a torn tail nothing would be read.
        let whole: u64 = self.actions.iter().map(|action| action.encode().len() as u64).sum();
        let noted = self.file.set_len(whole).and_then(|()| self.file.write_all(&undoing.encode()));
        self.actions.push(undoing);
        noted.map_err(|error| errno(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn sessions_are_named_by_their_time() {
        for (seconds, expected) in [
            (0, "19700101T000000Z-s"),
            (951_782_400, "20000229T000000Z-s"),
            (1_709_251_199, "20240229T235959Z-s"),
            (1_796_130_415, "20261201T130655Z-s"),
            (4_102_444_800, "21000101T000000Z-s"),
        ] {
            assert_eq!(name(UNIX_EPOCH + Duration::from_secs(seconds), "s"), expected);
        }
    }
}
