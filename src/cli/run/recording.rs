//! Watches a trial for the interval log, and passes on what it sees to the progress display.

use std::time::Duration;

use jiff::Timestamp;

use super::progress::Progress;
use crate::engine::{Observer, Phase, Second};
use crate::measure::{Interval, Reception};
use crate::record::{HlogInterval, HlogLines};
use crate::scenario::{Output, OutputFormat};

/// The observer of a trial.
pub struct Recording {
    progress: Progress,
    hlog: Option<HlogLines>,
}

impl Recording {
    pub fn new(output: &Output, progress: Progress) -> Self {
        let hlog = output.formats.contains(&OutputFormat::Hlog).then(HlogLines::default);
        Recording { progress, hlog }
    }

    /// Ends the progress display; the interval log's lines, none if it was not asked for.
    pub fn finish(self) -> HlogLines {
        self.progress.finish();
        self.hlog.unwrap_or_default()
    }
}

impl Observer for Recording {
    fn phase(&mut self, phase: Phase) {
        self.progress.phase(phase);
    }

    fn second(&mut self, second: &Second, outcomes: &Interval, arrivals: &Reception) {
        self.progress.second(second);
        let Some(lines) = &mut self.hlog else { return };
        let length = Duration::from_nanos(second.end_ns - second.begin_ns);
        let started = Timestamp::now().checked_sub(length).unwrap_or(Timestamp::UNIX_EPOCH);
        let distributions = [
            ("response", &outcomes.response),
            ("service", &outcomes.service),
            ("schedule_delay", &outcomes.schedule_delay),
            ("end_to_end", &arrivals.end_to_end),
        ];
        for (tag, distribution) in distributions.into_iter().filter(|(_, distribution)| !distribution.is_empty()) {
            // What cannot be encoded is still in the record's own histogram.
            let _ = lines.push(&HlogInterval { tag, started, length, histogram: distribution.histogram() });
        }
    }
}
