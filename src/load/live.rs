//! The parts of a payload that only the moment of sending can fill in: a counter and the time.

use std::ops::Range;

/// Columns of a counter without a stated width: 10^12 messages are six days at two million a second.
pub(super) const COUNTER_COLUMNS: usize = 12;

/// `1700000000.123456`: ten digits of seconds last until the year 2286.
const TIMESTAMP_COLUMNS: usize = SECONDS_COLUMNS + 1 + MICROSECONDS_COLUMNS;
const SECONDS_COLUMNS: usize = 10;
const MICROSECONDS_COLUMNS: usize = 6;

/// `1700000000123`.
const TIMESTAMP_MS_COLUMNS: usize = 13;

/// What a live field shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// Padded on the left with spaces to [`COUNTER_COLUMNS`]: a JSON number must not begin with zeros, while spaces
    /// before it mean nothing.
    Counter,
    /// Padded on the left with zeros to this many columns.
    PaddedCounter(usize),
    /// Unix seconds with six decimals.
    Timestamp,
    /// Unix milliseconds.
    TimestampMs,
}

impl Field {
    /// Its width never changes, so neither do a payload's size and the place of what follows.
    pub(super) fn columns(self) -> usize {
        match self {
            Field::Counter => COUNTER_COLUMNS,
            Field::PaddedCounter(columns) => columns,
            Field::Timestamp => TIMESTAMP_COLUMNS,
            Field::TimestampMs => TIMESTAMP_MS_COLUMNS,
        }
    }

    #[inline]
    pub(super) fn write(self, into: &mut [u8], counter: u64, now_unix_ns: u64) {
        match self {
            Field::Counter => write_right_aligned(into, counter, b' '),
            Field::PaddedCounter(_) => write_right_aligned(into, counter, b'0'),
            Field::Timestamp => {
                let (seconds, rest) = into.split_at_mut(SECONDS_COLUMNS);
                let (point, microseconds) = rest.split_at_mut(1);
                write_right_aligned(seconds, now_unix_ns / 1_000_000_000, b' ');
                point[0] = b'.';
                write_right_aligned(microseconds, now_unix_ns / 1_000 % 1_000_000, b'0');
            }
            Field::TimestampMs => write_right_aligned(into, now_unix_ns / 1_000_000, b' '),
        }
    }
}

/// Where a live field lies in its payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) offset: usize,
    pub(super) field: Field,
}

/// One payload with its live fields, as [`PayloadPool::live`](super::PayloadPool::live) gives it.
#[derive(Debug, Clone, Copy)]
pub struct LiveFields<'a> {
    text: &'a [u8],
    slots: &'a [Slot],
}

impl<'a> LiveFields<'a> {
    pub(super) fn new(text: &'a [u8], slots: &'a [Slot]) -> Self {
        LiveFields { text, slots }
    }

    /// Appends the payload to `scratch`, filled in for message `counter` at `now_unix_ns` (nanoseconds since 1970), and
    /// returns where it lies. The payloads of a batch can so share one buffer; clear it before the next. Nothing is
    /// allocated once the buffer has grown to a batch's size.
    #[inline]
    pub fn render(&self, scratch: &mut Vec<u8>, counter: u64, now_unix_ns: u64) -> Range<usize> {
        let start = scratch.len();
        scratch.extend_from_slice(self.text);
        let payload = &mut scratch[start..];
        for Slot { offset, field } in self.slots {
            field.write(&mut payload[*offset..*offset + field.columns()], counter, now_unix_ns);
        }
        start..scratch.len()
    }
}

/// Two digits at a time halve the number of divisions.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
};

/// Writes `value` right-aligned into `field`, with `padding` on its left. Of a value with more digits than the field
/// is wide, the lowest remain, as on a mechanical counter.
#[inline]
pub(super) fn write_right_aligned(field: &mut [u8], mut value: u64, padding: u8) {
    let mut end = field.len();
    while value >= 10 && end >= 2 {
        field[end - 2..end].copy_from_slice(&PAIRS[(value % 100) as usize]);
        value /= 100;
        end -= 2;
        if value == 0 {
            field[..end].fill(padding);
            return;
        }
    }
    if end > 0 {
        end -= 1;
        field[end] = b'0' + (value % 10) as u8;
    }
    field[..end].fill(padding);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn render(field: Field, counter: u64, now_unix_ns: u64) -> String {
        let text = vec![b'?'; field.columns()];
        let slots = [Slot { offset: 0, field }];
        let mut scratch = b"before".to_vec();
        let range = LiveFields::new(&text, &slots).render(&mut scratch, counter, now_unix_ns);
        assert_eq!(range.start, 6);
        String::from_utf8(scratch[range].to_vec()).unwrap()
    }

    #[test]
    fn counters_are_padded_to_their_columns_and_turn_over() {
        assert_eq!(render(Field::Counter, 42, 0), "          42");
        assert_eq!(render(Field::Counter, 1_000_000_000_042, 0), "000000000042");
        assert_eq!(render(Field::PaddedCounter(10), 42, 0), "0000000042");
        assert_eq!(render(Field::PaddedCounter(1), 42, 0), "2");
    }

    #[test]
    fn times_are_unix_times() {
        assert_eq!(render(Field::Timestamp, 0, 1_700_000_000_123_456_789), "1700000000.123456");
        assert_eq!(render(Field::Timestamp, 0, 7_000_042_000), "         7.000042");
        assert_eq!(render(Field::TimestampMs, 0, 1_700_000_000_123_456_789), "1700000000123");
    }

    proptest! {
        #[test]
        fn agrees_with_formatting(value: u64, shift in 0..64u32, width in 1..24usize) {
            let value = value >> shift;
            let mut field = vec![b'?'; width];
            write_right_aligned(&mut field, value, b'0');
            let formatted = format!("{value:0width$}");
            prop_assert_eq!(field.as_slice(), &formatted.as_bytes()[formatted.len() - width..]);

            write_right_aligned(&mut field, value, b' ');
            let formatted = format!("{value:width$}");
            prop_assert_eq!(field.as_slice(), &formatted.as_bytes()[formatted.len() - width..]);
        }
    }

    #[test]
    fn an_empty_field_stays_empty() {
        write_right_aligned(&mut [], 12, b'0');
    }
}
