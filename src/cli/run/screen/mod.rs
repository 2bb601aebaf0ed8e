//! `run --tui`: the trial that runs, on the whole terminal.
//!
//! The terminal stays as it is but for its alternate screen: it is not in raw mode, so that Ctrl-C is the signal that it is
//! without a screen.

mod view;

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};

use self::view::{Figures, Percentiles, Sample, TopicRow};
use crate::engine::{Phase, Second, TopicProgress};
use crate::measure::{Distribution, Interval};
use crate::notices::{LossyStderr, notice};

/// Whether the alternate screen is shown.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// What was told while it was, to be printed after it.
static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

const HELP: &str = "Ctrl-C ends this phase and keeps what was measured";

/// The screen of one trial.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<LossyStderr>>,
    figures: Figures,
    /// The headline latency since the window began.
    latency: Distribution,
    /// Of each topic at the last sample: messages handed over, and those with an outcome.
    topics: Vec<TopicProgress>,
}

impl Screen {
    /// Shows an empty screen.
    ///
    /// # Errors
    /// When standard error is not a terminal that can.
    pub fn open(title: String) -> io::Result<Self> {
        restore_on_panic();
        let terminal = Terminal::new(CrosstermBackend::new(LossyStderr))?;
        execute!(LossyStderr, EnterAlternateScreen, Hide)?;
        IS_OPEN.store(true, Ordering::Release);
        let figures = Figures { title, ..Figures::default() };
        Ok(Screen { terminal, figures, latency: Distribution::new(), topics: Vec::new() })
    }

    /// The phase, and how long the trial has been in it, in words.
    pub fn phase(&mut self, text: String) {
        self.figures.phase = text;
        self.draw();
    }

    /// What holds messages up, in words.
    pub fn conditions(&mut self, text: String) {
        self.figures.held_up = text;
    }

    /// Takes a sample.
    pub fn second(&mut self, second: &Second, outcomes: &Interval) {
        let per_second = |number: u64| number as f64 * 1e9 / (second.end_ns - second.begin_ns).max(1) as f64;
        let figures = &mut self.figures;
        figures.acknowledged += second.acknowledged;
        figures.failed += second.failed;
        // Without a message there is neither.
        if figures.headline.is_empty() && !outcomes.service.is_empty() {
            figures.headline = if outcomes.response.is_empty() { "service" } else { "response" };
        }
        let latency = if figures.headline == "response" { &outcomes.response } else { &outcomes.service };
        if second.phase == Phase::Measure {
            self.latency.merge(latency);
        }
        figures.last_percentiles = percentiles(latency);
        figures.all_percentiles = percentiles(&self.latency);
        figures.add(Sample {
            wanted_per_second: second.due.map(per_second),
            sent_per_second: per_second(second.attempted),
            acknowledged_per_second: per_second(second.acknowledged),
            payload_bytes_per_second: per_second(second.payload_bytes),
            consumed_per_second: per_second(second.consumed),
            in_flight: second.in_flight,
            p99_ns: second.p99_ns.unwrap_or(0),
            client_cores: second.cpu_cores,
            broker_cores: second.broker_cores,
        });
    }

    /// Takes where the topics are, `seconds` after they were somewhere else.
    pub fn topics(&mut self, topics: &[TopicProgress], seconds: f64) {
        let before = std::mem::replace(&mut self.topics, topics.to_vec());
        let row = |(index, topic): (usize, &TopicProgress)| {
            let (sent, resolved) = before.get(index).map_or((0, 0), |topic| (topic.submitted, topic.resolved));
            let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds.max(1e-9);
            TopicRow {
                name: topic.name.clone(),
                sent_per_second: per_second(topic.submitted, sent),
                resolved_per_second: per_second(topic.resolved, resolved),
                in_flight: topic.submitted.saturating_sub(topic.resolved),
            }
        };
        self.figures.topics = topics.iter().enumerate().map(row).collect();
    }

    /// Draws nothing once the terminal was given back, as after a panic. Where drawing fails, the load goes on.
    fn draw(&mut self) {
        if IS_OPEN.load(Ordering::Acquire) {
            let notice = NOTICES.lock().last().cloned();
            self.figures.notice = notice.unwrap_or_else(|| HELP.to_owned());
            let figures = &self.figures;
            let _ = self.terminal.draw(|frame| figures.draw(frame));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// The values of nothing are unknown.
fn percentiles(latency: &Distribution) -> Option<Percentiles> {
    let histogram = (!latency.is_empty()).then(|| latency.histogram())?;
    Some([0.5, 0.9, 0.99, 0.999, 1.0].map(|quantile| histogram.value_at_quantile(quantile)))
}

/// Tells the user something: on the screen while it is open, and in any case on standard error.
pub fn tell(line: &str) {
    if IS_OPEN.load(Ordering::Acquire) {
        NOTICES.lock().push(line.trim_start().to_owned());
    } else {
        notice!("{line}");
    }
}

/// Gives the terminal back, and prints what was told meanwhile.
pub fn restore() {
    if IS_OPEN.swap(false, Ordering::AcqRel) {
        let _ = execute!(LossyStderr, LeaveAlternateScreen, Show);
        NOTICES.lock().drain(..).for_each(|line| notice!("{line}"));
    }
}

/// Before a panic's message is printed.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The load panics on a thread of its own, and the program may end before the screen is dropped.
    #[test]
    fn a_panic_of_any_thread_gives_the_terminal_back() {
        restore_on_panic();
        IS_OPEN.store(true, Ordering::Release);
        tell("what was told meanwhile");
        assert_eq!(NOTICES.lock().len(), 1);
        let panicked = std::thread::spawn(|| panic!("on purpose: the screen's test")).join();
        assert!(panicked.is_err());
        assert!(!IS_OPEN.load(Ordering::Acquire) && NOTICES.lock().is_empty());
    }
}
