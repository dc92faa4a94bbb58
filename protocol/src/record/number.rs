//! Numbers of data streams: unsigned LEB128, seven bits a byte, least significant first, the top bit set on all
//! but the last.

use super::cursor::Field;

/// A number takes more than 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overflow;

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The number at the front of some bytes.
pub(super) fn parse(bytes: &[u8]) -> Result<Field<u64>, Overflow> {
    let mut number = 0u64;
    for (shift, index) in (0..64).step_by(7).zip(0..) {
        let Some(&byte) = bytes.get(index) else { return Ok(Field::Incomplete) };
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return Err(Overflow);
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(Field::Complete(number, index + 1));
        }
    }
    Err(Overflow)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_survive(number in any::<u64>()) {
            let mut out = Vec::new();
            put(&mut out, number);
            prop_assert_eq!(parse(&out), Ok(Field::Complete(number, out.len())));
        }
    }
}
