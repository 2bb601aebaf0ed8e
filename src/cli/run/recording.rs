//! Watches a trial: its seconds, interval log and checkpoints go to disk as they come, and the progress display is told.
//!
//! Nothing that was handed to the journal is held here: a day's run takes no more memory than its first minute, but for the
//! figures of its seconds, which the verdict needs.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::progress::Progress;
use crate::conclude::{assemble, series_row};
use crate::engine::{Observer, Outcome, Phase, Second};
use crate::measure::{Interval, Reception};
use crate::record::{HlogInterval, HlogLines, Journal};
use crate::scenario::{OutputFormat, Trial};

/// What all records of a run share.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    pub id: &'a str,
    pub command_line: &'a [String],
    /// Between two checkpoints.
    pub checkpoint_every: Duration,
}

/// The observer of a trial.
pub struct Recording<'a> {
    trial: &'a Trial,
    run: Run<'a>,
    journal: &'a mut Journal,
    progress: Progress,
    checkpoint_at: Instant,
}

impl<'a> Recording<'a> {
    pub fn new(trial: &'a Trial, run: Run<'a>, journal: &'a mut Journal, progress: Progress) -> Self {
        Recording { trial, run, journal, progress, checkpoint_at: Instant::now() + run.checkpoint_every }
    }

    /// Ends the progress display.
    pub fn finish(self) {
        self.progress.finish();
    }

    /// The lines of the interval log, none if it was not asked for.
    fn intervals(&self, second: &Second, outcomes: &Interval, arrivals: &Reception) -> HlogLines {
        let mut lines = HlogLines::default();
        if !self.trial.scenario.output.formats.contains(&OutputFormat::Hlog) {
            return lines;
        }
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
        lines
    }
}

impl Observer for Recording<'_> {
    fn phase(&mut self, phase: Phase) {
        self.progress.phase(phase);
    }

    fn second(&mut self, second: &Second, outcomes: &Interval, arrivals: &Reception) {
        self.progress.second(second);
        let intervals = self.intervals(second, outcomes, arrivals);
        self.journal.second(&series_row(self.trial, second), intervals);
        if let Some(notice) = self.journal.notice() {
            self.progress.tell(&format!("warning: {notice}; the trial goes on"));
        }
    }

    fn wants_checkpoint(&self) -> bool {
        Instant::now() >= self.checkpoint_at
    }

    fn checkpoint(&mut self, so_far: &Outcome) {
        self.checkpoint_at = Instant::now() + self.run.checkpoint_every;
        self.journal.checkpoint(&assemble(self.trial, self.run.id, self.run.command_line, so_far));
    }
}
