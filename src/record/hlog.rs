//! `latency.hlog`: the latencies as an HdrHistogram interval log, version 1.3, which the ports of other languages and
//! their plotters read.
//!
//! Each line is `Tag=<latency>,<start>,<length>,<max>,<histogram>`: start in seconds since the Unix epoch, length in
//! seconds, the largest value in milliseconds (for people; readers take it from the histogram), and the histogram, whose
//! values are nanoseconds, as HdrHistogram V2 compressed base64. There is no `BaseTime`, so that lines of several runs
//! can be put into one file.

use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};
use jiff::Timestamp;

/// Divides the histograms' nanoseconds in the column for people.
const NANOSECONDS_PER_MILLISECOND: f64 = 1e6;

/// The column titles as the Java implementation writes them; readers skip the line.
const LEGEND: &str = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

/// One line of the log.
#[derive(Debug, Clone, Copy)]
pub struct HlogInterval<'a> {
    /// Which latency this is: `response`, `service`, `schedule_delay` or `end_to_end`. A name that the format cannot
    /// carry (with a comma or a space) leaves the line untagged.
    pub tag: &'a str,
    pub started: Timestamp,
    pub length: Duration,
    /// Values in nanoseconds.
    pub histogram: &'a Histogram<u64>,
}

/// What the log begins with: the format's version, when the first interval began, and the legend.
pub(super) fn header(started: Timestamp) -> String {
    format!(
        "#[Histogram log format version 1.3]\n#[StartTime: {:.3} (seconds since epoch), {started}]\n{LEGEND}",
        since_epoch(started).as_secs_f64(),
    )
}

/// A trial's lines, encoded one by one as its seconds pass: a line takes a hundredth of the histogram's memory.
#[derive(Debug, Default)]
pub struct HlogLines {
    text: Vec<u8>,
    started: Option<Timestamp>,
}

impl HlogLines {
    /// Adds the line of an interval.
    ///
    /// # Errors
    /// When the histogram cannot be encoded; nothing is added then.
    pub fn push(&mut self, interval: &HlogInterval<'_>) -> io::Result<()> {
        let length = self.text.len();
        let written = write_interval(interval, &mut self.text);
        match &written {
            Ok(()) => self.started = self.started.or(Some(interval.started)),
            Err(_) => self.text.truncate(length),
        }
        written
    }

    /// The histogram of a tag, as [`encode_histogram`](super::encode_histogram) writes it.
    pub fn histogram(&self, tag: &str) -> Option<&str> {
        let text = std::str::from_utf8(&self.text).ok()?;
        let of_tag = |line: &&str| line.strip_prefix("Tag=").and_then(|rest| rest.split(',').next()) == Some(tag);
        text.lines().find(of_tag)?.rsplit(',').next()
    }

    pub(super) fn started(&self) -> Option<Timestamp> {
        self.started
    }

    /// The lines, without a head.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }
}

fn write_interval(interval: &HlogInterval<'_>, mut out: &mut Vec<u8>) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .with_max_value_divisor(NANOSECONDS_PER_MILLISECOND)
        .begin_log_with(&mut out, &mut serializer)?;
    writer
        .write_histogram(interval.histogram, since_epoch(interval.started), interval.length, Tag::new(interval.tag))
        .map_err(|error| match error {
            IntervalLogWriterError::IoError(error) => error,
            IntervalLogWriterError::SerializeError(error) => io::Error::other(error.to_string()),
        })
}

fn since_epoch(time: Timestamp) -> Duration {
    Duration::try_from(time.as_duration()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn the_log_is_read_back_by_the_format_s_own_reader() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).unwrap();
        histogram.record(2_500_000).unwrap();
        let started: Timestamp = "2026-03-01T12:00:00.250Z".parse().unwrap();
        let length = Duration::from_millis(10_500);
        let mut text = header(started).into_bytes();
        let mut lines = HlogLines::default();
        for tag in ["response", "service"] {
            lines.push(&HlogInterval { tag, started, length, histogram: &histogram }).unwrap();
        }
        assert_eq!(lines.histogram("service"), Some(crate::record::encode_histogram(&histogram).as_str()));
        assert_eq!(lines.histogram("schedule_delay"), None);
        text.extend_from_slice(lines.text());
        let readable = String::from_utf8(text.clone()).unwrap();
        assert!(
            readable.starts_with("#[Histogram log format version 1.3]\n#[StartTime: 1772366400.250 "),
            "{readable}"
        );
        assert!(readable.contains("\nTag=response,1772366400.250,10.500,2.50"), "{readable}");

        let mut tags = Vec::new();
        for entry in IntervalLogIterator::new(&text) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                tags.push(interval.tag().unwrap().as_str());
                assert_eq!(interval.duration(), length);
                let payload = base64::engine::general_purpose::STANDARD.decode(interval.encoded_histogram()).unwrap();
                let read: Histogram<u64> = Deserializer::new().deserialize(&mut payload.as_slice()).unwrap();
                assert_eq!(read, histogram);
            }
        }
        assert_eq!(tags, ["response", "service"]);
    }
}
