//! What the faults of a trial did so far: written by the thread that runs them, read by the sampler and for the outcome.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::scenario::{Fault, on_one_line};

/// What a trial's faults did so far.
#[derive(Clone, Default)]
pub(super) struct FaultLog(Arc<Mutex<Logged>>);

#[derive(Default)]
struct Logged {
    faults: Vec<FaultRun>,
    news: Vec<String>,
    begun: Vec<String>,
}

/// What became of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRun {
    pub fault: Fault,
    pub run: CommandRun,
    /// What took it back; `None`: nothing is to do so.
    pub undo: Option<CommandRun>,
}

/// What became of a command. Times are in nanoseconds since the trial's epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandRun {
    /// `None`: it was not begun.
    pub begin_ns: Option<u64>,
    /// `None`: it has not ended.
    pub end_ns: Option<u64>,
    pub exit_code: Option<i32>,
    /// Why it did not do its work, as a part of a sentence.
    pub failure: Option<String>,
    /// The last of what it printed to both streams.
    pub output: String,
}

impl FaultLog {
    /// All faults that the trial is to have, in their order.
    pub fn all(&self) -> Vec<FaultRun> {
        self.0.lock().faults.clone()
    }

    /// Events since the last call, in sentences.
    pub fn news(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().news)
    }

    /// The commands that have begun since the last call.
    pub fn begun(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().begun)
    }

    pub(super) fn plan(&self, faults: &[Fault]) {
        let planned = |fault: &Fault| FaultRun {
            fault: fault.clone(),
            run: CommandRun::default(),
            undo: fault.undo.as_ref().map(|_| CommandRun::default()),
        };
        self.0.lock().faults = faults.iter().map(planned).collect();
    }

    pub(super) fn note(
        &self,
        place: Place,
        command: &str,
        run: CommandRun,
        sentence: impl FnOnce(&CommandRun) -> String,
    ) {
        let mut logged = self.0.lock();
        logged.news.push(format!("fault: {} {}", on_one_line(command), sentence(&run)));
        if run.end_ns.is_none() {
            logged.begun.push(command.to_owned());
        }
        let fault = &mut logged.faults[place.index];
        if place.is_undo { fault.undo = Some(run) } else { fault.run = run }
    }

    /// Marks the faults that have not begun: they will not begin.
    pub(super) fn close(&self) {
        for fault in self.0.lock().faults.iter_mut().filter(|fault| fault.run.begin_ns.is_none()) {
            fault.run.failure = Some("was not begun: the load had ended".to_owned());
        }
    }
}

/// One of the commands of a trial.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub index: usize,
    pub is_undo: bool,
}
