//! Parsing of small fields from a stream that may be cut anywhere.

use crate::limits::PATH_BYTES;

/// A field parsed from the front of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<T> {
    /// The value, and how many bytes it took.
    Complete(T, usize),
    /// More bytes are needed.
    Incomplete,
}

/// Keeps the front of a field whose rest is still to come.
///
/// Every field is shorter than [`Carry::LIMIT`] bytes, so at most that much is ever copied.
#[derive(Debug, Default)]
pub(super) struct Carry {
    bytes: Vec<u8>,
}

impl Carry {
    /// No field takes this many bytes: the longest is the header of a bare record with its path.
    const LIMIT: usize = PATH_BYTES + 1_024;

    /// Parses one field from what was kept and then `input`, of which the bytes used are removed.
    /// `None` when all of `input` was taken and the field is still incomplete.
    pub(super) fn parse<T, E>(
        &mut self,
        input: &mut &[u8],
        field: impl Fn(&[u8]) -> Result<Field<T>, E>,
    ) -> Result<Option<T>, E> {
        let kept = self.bytes.len();
        if kept == 0 {
            return match field(input)? {
                Field::Complete(value, used) => {
                    *input = &input[used..];
                    Ok(Some(value))
                }
                Field::Incomplete => {
                    self.keep(input);
                    Ok(None)
                }
            };
        }
        let added = input.len().min(Self::LIMIT);
        self.bytes.extend_from_slice(&input[..added]);
        match field(&self.bytes)? {
            Field::Complete(value, used) => {
                self.bytes.clear();
                *input = &input[used - kept..];
                Ok(Some(value))
            }
            Field::Incomplete => {
                *input = &input[added..];
                Ok(None)
            }
        }
    }

    /// Whether no field has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn keep(&mut self, input: &mut &[u8]) {
        self.bytes.extend_from_slice(input);
        *input = &[];
    }
}
