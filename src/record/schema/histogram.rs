//! Histograms as text: HdrHistogram's encoding, in base64.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// The bytes before the counts: cookie, length of the counts, offset, digits, lowest and highest value, ratio (`EncodableHistogram` of
/// HdrHistogram for Java, `V2EncodingCookieBase`).
const HEAD_BYTES: usize = 40;

/// The first bytes of the encoding that is compressed, and of the one within it.
const COMPRESSED: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();
const PLAIN: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();

/// The most bytes of counts: with [`MAX_DIGITS`], a histogram of all 63 bits has 56,320 counts of at most 9 bytes.
const MAX_BYTES: usize = 1 << 20;

/// The significant digits of brokermark's histograms. With each more, a histogram takes ten times the memory.
const MAX_DIGITS: u8 = 3;

/// The histogram in HdrHistogram's compressed V2 encoding, as base64.
///
/// Writing to memory fails only where a count does not fit 63 bits, which no trial lives to see: the text is empty then.
pub fn encode_histogram(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        Err(_) => String::new(),
    }
}

/// The histogram that [`encode_histogram`] wrote, or another program in one of HdrHistogram's V2 encodings.
///
/// The text may come from a damaged file or another machine. The library takes memory for what its head announces, so that this is checked
/// first.
///
/// # Errors
/// When the text is not one that an HdrHistogram library wrote, or the histogram is much larger than those of brokermark.
pub fn decode_histogram(text: &str) -> Result<Histogram<u64>, HistogramError> {
    let damaged = |reason: String| HistogramError(reason);
    let bytes = STANDARD.decode(text.trim()).map_err(|error| damaged(error.to_string()))?;
    let plain = match bytes.strip_prefix(&COMPRESSED).and_then(|rest| rest.get(4..)) {
        None => bytes,
        Some(compressed) => {
            let mut plain = Vec::new();
            let mut unpacked = ZlibDecoder::new(compressed).take((HEAD_BYTES + MAX_BYTES) as u64);
            unpacked.read_to_end(&mut plain).map_err(|error| damaged(error.to_string()))?;
            plain
        }
    };
    let word = |at: usize| plain.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    let (Some(announced), Some(digits)) = (word(4), word(12)) else { return Err(damaged("it is cut off".to_owned())) };
    if !plain.starts_with(&PLAIN) {
        return Err(damaged("it does not begin like one".to_owned()));
    }
    let there = plain.len().saturating_sub(HEAD_BYTES);
    if announced as usize > there {
        return Err(damaged(format!("it announces {announced} bytes, and has {there}")));
    }
    if digits > u32::from(MAX_DIGITS) {
        return Err(damaged(format!("it has {digits} significant digits, more than {MAX_DIGITS}")));
    }
    Deserializer::new().deserialize(&mut plain.as_slice()).map_err(|error| damaged(format!("{error:?}")))
}

/// A record's histogram cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record's histogram is damaged ({0}): its other figures were made from it and still stand")]
pub struct HistogramError(String);

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::V2Serializer;

    use super::*;

    fn filled() -> Histogram<u64> {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 600_000_000_000, 3).unwrap();
        (1..=10_000u64).for_each(|value| histogram.record(value * 1_000).unwrap());
        histogram
    }

    fn head(announced: u32, digits: u32, highest: u64) -> Vec<u8> {
        let words = [announced, 0, digits].map(u32::to_be_bytes).concat();
        let values = [1, highest, 1f64.to_bits()].map(u64::to_be_bytes).concat();
        [&PLAIN[..], &words, &values].concat()
    }

    #[test]
    fn both_encodings_are_read_as_they_were_written() {
        assert_eq!(decode_histogram(&encode_histogram(&filled())).unwrap(), filled());
        let mut plain = Vec::new();
        V2Serializer::new().serialize(&filled(), &mut plain).unwrap();
        assert_eq!(decode_histogram(&format!("{}\n", STANDARD.encode(plain))).unwrap(), filled());
        let widest = Histogram::<u64>::new_with_bounds(1, i64::MAX as u64, MAX_DIGITS).unwrap();
        assert_eq!(decode_histogram(&encode_histogram(&widest)).unwrap(), widest);
    }

    #[test]
    fn a_head_that_announces_more_than_there_is_takes_no_memory() {
        for bytes in [head(u32::MAX, 3, 3_600_000_000_000), head(0, 5, i64::MAX as u64)] {
            let text = decode_histogram(&STANDARD.encode(&bytes)).unwrap_err().to_string();
            assert!(text.contains("announces 4294967295 bytes, and has 0") || text.contains("5 significant"), "{text}");
            let mut packed = [&COMPRESSED[..], &[0xff; 4]].concat();
            let mut encoder = flate2::read::ZlibEncoder::new(bytes.as_slice(), flate2::Compression::fast());
            encoder.read_to_end(&mut packed).unwrap();
            assert!(decode_histogram(&STANDARD.encode(packed)).is_err());
        }
        for cut in 0..HEAD_BYTES {
            assert!(decode_histogram(&STANDARD.encode(&head(0, 3, 1_000)[..cut])).is_err());
        }
    }

    /// A gigabyte of zeros takes a megabyte when it is packed.
    #[test]
    fn a_packed_histogram_is_unpacked_up_to_a_limit() {
        let mut packed = [&COMPRESSED[..], &[0xff; 4]].concat();
        let bomb = head(64 << 20, 3, 1_000).into_iter().chain(std::iter::repeat_n(0, 64 << 20)).collect::<Vec<u8>>();
        flate2::read::ZlibEncoder::new(bomb.as_slice(), flate2::Compression::fast()).read_to_end(&mut packed).unwrap();
        let error = decode_histogram(&STANDARD.encode(packed)).unwrap_err().to_string();
        assert!(error.contains("announces 67108864 bytes, and has 1048576"), "{error}");
    }
}
