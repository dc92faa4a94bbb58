//! Making and storing the [`Secret`] inside a ticket.

use data_encoding::HEXLOWER;
use ketch_protocol::message::{SECRET_BYTES, Secret};

/// A new one from the operating system's randomness; an error says that there is none.
pub(super) fn random() -> Result<Secret, getrandom::Error> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(Secret::from_bytes(bytes))
}

/// As 32 hexadecimal digits, for the offer's file.
pub(super) fn to_hex(secret: &Secret) -> String {
    HEXLOWER.encode(secret.as_bytes())
}

/// From 32 hexadecimal digits; `None` for anything else.
pub(super) fn from_hex(text: &str) -> Option<Secret> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok().map(Secret::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_secrets_differ_and_one_equals_itself() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert_ne!(one, other);
        assert_eq!(one, Secret::from_bytes(*one.as_bytes()));
    }

    #[test]
    fn hexadecimal_digits_keep_the_secret_and_other_text_is_refused() {
        let secret = Secret::from_bytes([0xa7; SECRET_BYTES]);
        assert_eq!(from_hex(&to_hex(&secret)), Some(secret));
        for text in ["", "a7", "zz", &"a7".repeat(17), &"A7".repeat(16)] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn debug_does_not_show_it() {
        assert_eq!(format!("{:?}", Secret::from_bytes([0xa7; SECRET_BYTES])), "Secret(..)");
    }
}
