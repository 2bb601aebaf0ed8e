//! `run --tui`: the trial that runs, on the whole terminal: its figures, its last seconds as charts, and its topics.
//!
//! The terminal stays as it is but for its alternate screen: it is not in raw mode, so that Ctrl-C is the signal that it is
//! without a screen.

use std::collections::VecDeque;
use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};
use ratatui::{Frame, Terminal};

use crate::engine::{Phase, Second, TopicProgress};
use crate::measure::{Distribution, Interval};
use crate::notices::{LossyStderr, notice};
use crate::record::readable::{bytes, count, duration, rate};

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
            figures.headline = outcomes.headline();
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

/// Samples that the charts may have: more than any terminal has columns.
const MAX_SAMPLES: usize = 500;

/// Topics of which there are more are not all shown.
const MAX_TOPICS: usize = 200;

/// The percentiles of the table, in the order of [`Percentiles`].
const TITLES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// In nanoseconds.
type Percentiles = [u64; TITLES.len()];

/// All that is shown.
#[derive(Debug, Clone, Default)]
struct Figures {
    /// The scenario, and which of its trials runs.
    title: String,
    /// The phase, and how long it takes.
    phase: String,
    /// What holds messages up.
    held_up: String,
    /// The latest sample.
    latest: Option<Sample>,
    course: VecDeque<Sample>,
    /// Since the trial began.
    acknowledged: u64,
    failed: u64,
    /// The headline latency's name, and its percentiles in the latest sample and since the window began.
    headline: &'static str,
    last_percentiles: Option<Percentiles>,
    all_percentiles: Option<Percentiles>,
    topics: Vec<TopicRow>,
    /// What the user is to know.
    notice: String,
}

/// One row of the series.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sample {
    wanted_per_second: Option<f64>,
    sent_per_second: f64,
    acknowledged_per_second: f64,
    payload_bytes_per_second: f64,
    consumed_per_second: f64,
    in_flight: u64,
    p99_ns: u64,
    client_cores: f64,
    broker_cores: Option<f64>,
}

/// One topic at the latest sample.
#[derive(Debug, Clone, Default, PartialEq)]
struct TopicRow {
    name: String,
    sent_per_second: f64,
    resolved_per_second: f64,
    in_flight: u64,
}

impl Figures {
    /// Another sample was taken.
    fn add(&mut self, sample: Sample) {
        if self.course.len() == MAX_SAMPLES {
            self.course.pop_front();
        }
        self.course.push_back(sample);
        self.latest = Some(sample);
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let topics = (self.topics.len().min(MAX_TOPICS) as u16).saturating_add(3);
        let [head, figures, latency, rates, slowest, table, foot] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(3),
            Constraint::Length(4),
            Constraint::Min(3),
            Constraint::Min(3),
            Constraint::Max(topics),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let title =
            Line::from(vec![Span::from(self.title.as_str()).bold(), Span::from("  "), Span::from(&*self.phase)]);
        let held_up = Line::from(self.held_up.as_str()).bold();
        frame.render_widget(Paragraph::new(vec![title, held_up]), head);
        self.figures(frame, figures);
        self.latency(frame, latency);
        self.charts(frame, rates, slowest);
        self.topics(frame, table);
        frame.render_widget(Paragraph::new(self.notice.as_str()).dim(), foot);
    }

    fn figures(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(latest) = self.latest else { return };
        let wanted = latest.wanted_per_second.map(|wanted| format!("wanted {}/s · ", rate(wanted))).unwrap_or_default();
        let broker = latest.broker_cores.map(|cores| format!(" · broker {cores:.2} cores")).unwrap_or_default();
        let lines = vec![
            Line::from(format!(
                "{wanted}sent {}/s · acknowledged {}/s, {}/s of payload · consumed {}/s",
                rate(latest.sent_per_second),
                rate(latest.acknowledged_per_second),
                bytes(latest.payload_bytes_per_second),
                rate(latest.consumed_per_second),
            )),
            Line::from(format!(
                "{} acknowledged · {} failed · {} in flight · client {:.2} cores{broker}",
                count(self.acknowledged),
                count(self.failed),
                count(latest.in_flight),
                latest.client_cores,
            )),
        ];
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn latency(&self, frame: &mut Frame<'_>, area: Rect) {
        let row = |name: &'static str, percentiles: Option<Percentiles>| {
            let cells = match percentiles {
                Some(values) => values.map(|value_ns| format!("{:>9}", duration(value_ns as f64))),
                None => [(); TITLES.len()].map(|()| format!("{:>9}", "–")),
            };
            Row::new(std::iter::once(name.to_owned()).chain(cells))
        };
        let titles = std::iter::once(self.headline.to_owned()).chain(TITLES.map(|title| format!("{title:>9}")));
        let rows = [row("last sample", self.last_percentiles), row("since the begin", self.all_percentiles)];
        let widths = [Constraint::Length(15)].into_iter().chain([Constraint::Length(9); TITLES.len()]);
        frame.render_widget(Table::new(rows, widths).header(Row::new(titles).style(Style::new().dim())), area);
    }

    fn charts(&self, frame: &mut Frame<'_>, rates: Rect, slowest: Rect) {
        let highest = |figure: fn(&Sample) -> f64| self.course.iter().map(figure).fold(0.0, f64::max);
        let carried = |sample: &Sample| sample.acknowledged_per_second;
        let tail = |sample: &Sample| sample.p99_ns as f64;
        let top = format!("acknowledged/s, up to {}", rate(highest(carried)));
        self.chart(frame, rates, top, carried);
        let top = format!("{} p99, up to {}", self.headline, duration(highest(tail)));
        self.chart(frame, slowest, top, tail);
    }

    /// The latest samples that there is room for.
    fn chart(&self, frame: &mut Frame<'_>, area: Rect, title: String, figure: fn(&Sample) -> f64) {
        let room = usize::from(area.width);
        let skipped = self.course.len().saturating_sub(room);
        let data: Vec<u64> = self.course.iter().skip(skipped).map(|sample| figure(sample).round() as u64).collect();
        let block = Block::new().title(Line::from(title).dim());
        frame.render_widget(Sparkline::default().data(&data).block(block), area);
    }

    fn topics(&self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.topics.iter().take(MAX_TOPICS).map(|topic| {
            let number = |text: String| format!("{text:>12}");
            Row::new([
                topic.name.clone(),
                number(rate(topic.sent_per_second)),
                number(rate(topic.resolved_per_second)),
                number(count(topic.in_flight)),
            ])
        });
        let titles = [
            "topic".to_owned(),
            format!("{:>12}", "sent/s"),
            format!("{:>12}", "outcomes/s"),
            format!("{:>12}", "in flight"),
        ];
        let widths = [Constraint::Min(20), Constraint::Length(12), Constraint::Length(12), Constraint::Length(12)];
        let header = Row::new(titles).style(Style::new().dim());
        frame.render_widget(Table::new(rows, widths).header(header), area);
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/cli/run/screen.rs"]
mod tests;
