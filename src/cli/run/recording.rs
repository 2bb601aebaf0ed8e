//! Observes a trial: writes its seconds, interval log and checkpoints to disk as they come and its record before its topics
//! are removed, and updates the progress display.
//!
//! The journal owns what it has been given. So a run of a day takes no more memory than its first minute, except for the
//! figures of each second, which the verdict needs.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use super::metrics::SharedFigures;
use super::progress::Progress;
use crate::engine::{EngineError, Observer, Outcome, Phase, Second, TopicProgress};
use crate::evaluate::{assemble, assemble_failed, mention_ceiling, series_row};
use crate::measure::{Condition, Interval, Reception};
use crate::record::{DirectoryError, HlogInterval, HlogLines, Record, RunDirectory};
use crate::scenario::{OutputFormat, Trial};

/// What all records of a run share.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    pub id: &'a str,
    pub command_line: &'a [String],
    /// Between two checkpoints.
    pub checkpoint_every: Duration,
    /// Messages per second that the client carries without a broker, where that is known.
    pub ceiling: Option<f64>,
}

/// The observer of a trial.
pub struct Recording<'a> {
    trial: &'a Trial,
    run: Run<'a>,
    directory: &'a mut RunDirectory,
    progress: Progress,
    /// What `--metrics` tells.
    figures: Option<SharedFigures>,
    checkpoint_at: Instant,
    /// What is added to this machine's wall clock to get the time that all processes of the trial go by.
    clock_shift: SignedDuration,
    /// The trial's record, and whether it is on disk with all that belongs to it.
    kept: Option<(Record, Result<(), DirectoryError>)>,
}

impl<'a> Recording<'a> {
    pub fn new(
        trial: &'a Trial,
        run: Run<'a>,
        directory: &'a mut RunDirectory,
        progress: Progress,
        figures: Option<SharedFigures>,
    ) -> Self {
        let checkpoint_at = Instant::now() + run.checkpoint_every;
        if let Some(figures) = &figures {
            figures.lock().begin(trial);
        }
        let clock_shift = SignedDuration::ZERO;
        Recording { trial, run, directory, progress, figures, checkpoint_at, clock_shift, kept: None }
    }

    /// The same, by a clock that is so many nanoseconds ahead of this machine's.
    #[cfg(feature = "mpi")]
    pub fn by_clock_ahead(self, shift_ns: i64) -> Self {
        Recording { clock_shift: SignedDuration::from_nanos(shift_ns), ..self }
    }

    /// Brings the trial's record to disk.
    fn keep(&mut self, record: Record) {
        let written = self.directory.append_record(&record);
        self.kept = Some((record, written));
    }

    /// Keeps and shows a second. The histogram of `tag` in it, as the interval log has it; `None`: that has none.
    pub fn keep_second(
        &mut self,
        second: &Second,
        outcomes: &Interval,
        arrivals: &Reception,
        tag: &str,
    ) -> Option<String> {
        self.progress.second(second, outcomes);
        if let Some(figures) = &self.figures {
            figures.lock().second(second, outcomes, arrivals);
        }
        let intervals = self.intervals(second, outcomes, arrivals);
        let histogram = intervals.histogram(tag).map(str::to_owned);
        let journal = self.directory.journal();
        journal.second(&series_row(self.trial, second), intervals);
        if let Some(notice) = journal.notice() {
            self.progress.notice(&format!("warning: {notice}; the trial goes on"));
        }
        histogram
    }

    /// Ends the progress display; the record, and whether it is on disk with all that belongs to it. `error`: why the trial failed.
    pub fn finish(mut self, error: Option<&EngineError>) -> Option<(Record, Result<(), DirectoryError>)> {
        if let Some(error) = error {
            self.keep(assemble_failed(self.trial, self.run.id, self.run.command_line, error));
        }
        self.progress.finish();
        self.kept
    }

    /// The lines of the interval log, none if it was not asked for.
    fn intervals(&self, second: &Second, outcomes: &Interval, arrivals: &Reception) -> HlogLines {
        let mut lines = HlogLines::default();
        if !self.trial.scenario.output.formats.contains(&OutputFormat::Hlog) {
            return lines;
        }
        let length = Duration::from_nanos(second.end_ns - second.begin_ns);
        let started = began(Timestamp::now(), length, self.clock_shift);
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

/// When an interval began that has ended `now`, by a clock that is so much ahead.
fn began(now: Timestamp, length: Duration, ahead: SignedDuration) -> Timestamp {
    now.checked_add(ahead).and_then(|now| now.checked_sub(length)).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl Observer for Recording<'_> {
    fn phase(&mut self, phase: Phase) {
        self.progress.phase(phase);
        if let Some(figures) = &self.figures {
            figures.lock().phase(phase);
        }
    }

    fn warning(&mut self, sentence: &str) {
        self.progress.notice(&format!("warning: {sentence}"));
    }

    fn fault(&mut self, sentence: &str) {
        self.progress.fault(sentence);
    }

    fn conditions(&mut self, lasting: &[Condition]) {
        self.progress.conditions(lasting);
        if let Some(figures) = &self.figures {
            figures.lock().conditions = lasting.to_vec();
        }
    }

    fn idle_connections(&mut self, ready: u64, failed: u64, wanted: u64) {
        self.progress.idle_connections(ready, failed, wanted);
    }

    fn second(&mut self, second: &Second, outcomes: &Interval, arrivals: &Reception) {
        self.keep_second(second, outcomes, arrivals, "");
    }

    fn wants_topics(&self) -> bool {
        self.progress.wants_topics()
    }

    fn topics(&mut self, topics: &[TopicProgress]) {
        self.progress.topics(topics);
    }

    fn wants_checkpoint(&self) -> bool {
        Instant::now() >= self.checkpoint_at
    }

    fn checkpoint(&mut self, so_far: &Outcome) {
        self.checkpoint_at = Instant::now() + self.run.checkpoint_every;
        let record = assemble(self.trial, self.run.id, self.run.command_line, so_far);
        self.directory.journal().checkpoint(&record);
    }

    fn ended(&mut self, outcome: &Outcome) {
        let messages = outcome.part.as_ref().and_then(|part| part.messages.as_ref());
        let kept = messages.map_or(Ok(()), |messages| self.directory.keep_messages(messages));
        let mut record = assemble(self.trial, self.run.id, self.run.command_line, outcome);
        if let Some(ceiling) = self.run.ceiling {
            mention_ceiling(&mut record, ceiling);
        }
        self.keep(record);
        if let (Some((_, written @ Ok(()))), Err(error)) = (&mut self.kept, kept) {
            *written = Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_dated_by_the_clock_of_all_processes() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let of = |ahead| began(now, Duration::from_secs(1), SignedDuration::from_millis(ahead)).to_string();
        assert_eq!(of(0), "2026-03-01T11:59:59Z");
        assert_eq!(of(-60_500), "2026-03-01T11:58:58.5Z");
    }
}
