//! Which run of the system this is: what was not written to disk survives a killed process, not a boot.

use std::{fs, sync::LazyLock};

/// Linux gives each boot a random id.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// One run of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Boot(pub(super) u64);

impl Boot {
    /// The run that is going on. Where the system does not name it, this process stands for it: then what
    /// was not written to disk is trusted by this process alone.
    pub(super) fn current() -> Self {
        static CURRENT: LazyLock<Boot> = LazyLock::new(|| match fs::read(BOOT_ID) {
            Ok(id) => Boot(first_word(blake3::hash(&id).as_bytes())),
            Err(_) => Boot(getrandom::u64().expect("the system gives random bytes once it has booted")),
        });
        *CURRENT
    }
}

fn first_word(hash: &[u8; 32]) -> u64 {
    u64::from_le_bytes(hash[..8].try_into().expect("8 of 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_one_boot() {
        assert_eq!(Boot::current(), Boot::current());
    }
}
