//! Keeps a rank's trial, and tells rank 0 what happens each second.

use tokio::sync::mpsc::UnboundedSender;

use super::super::recording::Recording;
use crate::engine::{Observer, Outcome, Phase, Second};
use crate::measure::{Interval, Reception};
use crate::ranks::{Counters, FromRank, headline};

/// The observer of a rank's share of a trial.
pub struct Reporting<'a> {
    pub recording: Recording<'a>,
    pub to_root: UnboundedSender<FromRank>,
}

impl Observer for Reporting<'_> {
    fn phase(&mut self, phase: Phase) {
        self.recording.phase(phase);
    }

    fn warning(&mut self, sentence: &str) {
        self.recording.warning(sentence);
    }

    fn second(&mut self, second: &Second, outcomes: &Interval, arrivals: &Reception) {
        // Every rank keeps an interval log: the histogram is encoded once.
        let latencies = self.recording.keep_second(second, outcomes, arrivals, headline(outcomes)).unwrap_or_default();
        // Where rank 0 is lost, its orders end.
        let told = FromRank::Second { counters: Counters::of(second), latencies };
        let _ = self.to_root.send(told);
    }

    fn wants_checkpoint(&self) -> bool {
        self.recording.wants_checkpoint()
    }

    fn checkpoint(&mut self, so_far: &Outcome) {
        self.recording.checkpoint(so_far);
    }

    fn ended(&mut self, outcome: &Outcome) {
        self.recording.ended(outcome);
    }
}
