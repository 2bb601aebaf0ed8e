//! What the words of the report mean, printed where they appear.

use super::page::{LABEL_WIDTH, Page, Tone};
use crate::record::{Headline, Record};

/// What can be found by verifying.
const FOUND: &[(&str, &str)] = &[
    ("lost", "acknowledged and never received, though the group read past them"),
    ("unread", "not received when the wait for consumers ended; the broker may have them"),
    ("undecided", "not known, because the verifier's memory was exceeded"),
    ("not acknowledged but stored", "received, though they had failed or had no outcome"),
    ("duplicated", "received again, and the broker did not announce it"),
    ("redelivered", "received again, as the broker announced"),
    ("reordered", "received after a later message of the same producer and partition"),
    ("corrupt", "the payload is not what was sent"),
    ("foreign", "not of this trial: another run or program writes to these topics"),
    ("without a check of their order", "the memory for it was exceeded"),
];

/// Explains the word, if it was printed with a number above 0.
pub(super) fn unresolved(page: &mut Page, messages: u64) {
    if messages > 0 {
        explain(
            page,
            "unresolved",
            "without an answer when the wait for acknowledgements ended; the broker may have them",
        );
    }
}

/// Explains those of the words that verifying has printed with a number above 0.
pub(super) fn found(page: &mut Page, printed: &[(&str, u64)]) {
    for (word, meaning) in FOUND {
        if printed.iter().any(|(name, number)| name == word && *number > 0) {
            explain(page, word, meaning);
        }
    }
}

/// Explains the latencies of the table, the headline first.
pub(super) fn latencies(page: &mut Page, record: &Record) {
    let headline = match record.headline {
        Headline::Response => {
            "response: from when a message was due to its acknowledgement, whatever held it back; service: from when it was sent; \
             schedule delay: from when it was due to when it was sent"
        }
        Headline::Service => {
            "service: from when a message was sent to its acknowledgement; without a schedule, what held it back before is unknown"
        }
    };
    page.faint(headline);
    let latency = &record.latency;
    let all = [&latency.response, &latency.service, &latency.schedule_delay, &latency.end_to_end];
    if all.into_iter().flatten().any(|latency| latency.beyond_range > 0) {
        page.faint(
            "beyond range: longer than the histogram can hold, so the upper percentiles and the maximum are too low",
        );
    }
    if latency.end_to_end.as_ref().is_some_and(|latency| latency.lag_grew) {
        page.faint("end to end: consumers fell further and further behind, so it tells how long the trial lasted");
    }
}

fn explain(page: &mut Page, word: &str, meaning: &str) {
    let lead = format!("{:LABEL_WIDTH$}{word}: ", "");
    page.led(&lead, Tone::Faint, meaning);
}
