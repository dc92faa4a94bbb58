//! Which programs there are.

use std::{
    env,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

/// Where daemons and `mkfs` are, which the search path of plain users often lacks.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The absolute path of the program `name`, if it is installed.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|program| program.is_absolute() && is_program(program))
}

/// The program `name` by its absolute path, or by name alone where it is not installed.
pub(crate) fn program(name: &str) -> PathBuf {
    find(name).unwrap_or_else(|| name.into())
}

/// Whether `path` names a file that can be executed.
pub(crate) fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_and_another_is_not() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("no-program-has-this-name"), None);
    }
}
