//! What is on the screen: figures of the trial that runs, its last seconds as charts, and its topics.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};

use crate::record::readable::{bytes, count, duration, rate};

/// Samples that the charts may have: more than any terminal has columns.
const MAX_SAMPLES: usize = 500;

/// Topics of which there are more are not all shown.
const MAX_TOPICS: usize = 200;

/// The percentiles of the table, in the order of [`Percentiles`].
const TITLES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// In nanoseconds.
pub type Percentiles = [u64; TITLES.len()];

/// All that is shown.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// The scenario, and which of its trials runs.
    pub title: String,
    /// The phase, and how long it takes.
    pub phase: String,
    /// What holds messages up.
    pub held_up: String,
    /// The latest sample.
    pub latest: Option<Sample>,
    pub course: VecDeque<Sample>,
    /// Since the trial began.
    pub acknowledged: u64,
    pub failed: u64,
    /// The headline latency's name, and its percentiles in the latest sample and since the window began.
    pub headline: &'static str,
    pub last_percentiles: Option<Percentiles>,
    pub all_percentiles: Option<Percentiles>,
    pub topics: Vec<TopicRow>,
    /// What the user is to know.
    pub notice: String,
}

/// One row of the series.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    pub wanted_per_second: Option<f64>,
    pub sent_per_second: f64,
    pub acknowledged_per_second: f64,
    pub payload_bytes_per_second: f64,
    pub consumed_per_second: f64,
    pub in_flight: u64,
    pub p99_ns: u64,
    pub client_cores: f64,
    pub broker_cores: Option<f64>,
}

/// One topic at the latest sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopicRow {
    pub name: String,
    pub sent_per_second: f64,
    pub resolved_per_second: f64,
    pub in_flight: u64,
}

impl Figures {
    /// Another sample was taken.
    pub fn add(&mut self, sample: Sample) {
        if self.course.len() == MAX_SAMPLES {
            self.course.pop_front();
        }
        self.course.push_back(sample);
        self.latest = Some(sample);
    }

    /// Draws everything.
    pub fn draw(&self, frame: &mut Frame<'_>) {
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
#[path = "../../../../tests/unit/cli/run/screen/view.rs"]
mod tests;
