//! The progress of a run: one line that renews itself on a terminal, elsewhere a plain line every few seconds; or the whole screen.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::screen::{self, Screen};
use crate::engine::{Phase, Second, TopicProgress};
use crate::measure::{Condition, Interval};
use crate::notices::notice;
use crate::record::readable;
use crate::scenario::{Plan, RunLimits};

/// How often a plain line is printed.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// The progress of one trial.
pub struct Progress {
    display: Display,
    /// `2/9 ` for the second trial of nine; empty for a single one.
    position: String,
    limits: RunLimits,
    /// What the trials after this one take at least, as far as their durations are set.
    rest: Duration,
    phase: Phase,
    /// Since when the trial is in its phase.
    since: Instant,
    /// When the topics were looked at last.
    sampled: Option<Instant>,
    measured: Measured,
    failed: u64,
    /// What holds messages up, in words: empty where nothing does.
    held_up: Vec<String>,
    /// How far consumers are behind, in words: `None` where that is less than a second's messages.
    behind: Option<String>,
}

/// Which trial it is among those of all sides.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// From 1.
    pub number: usize,
    pub of: usize,
    /// `A ` or `B `; empty where there is one side.
    pub side: &'static str,
    /// What the trials after it take at least, as far as their durations are set.
    pub rest: Duration,
}

impl Turn {
    /// The turns of trials that run in this order: each as its side and its position in the side's plan. Those that an earlier session has
    /// kept (`is_kept`) take no time.
    pub fn all(plans: &[&Plan], order: &[(usize, usize)], is_kept: impl Fn(usize, usize) -> bool) -> Vec<Turn> {
        let took = |(side, position): &(usize, usize)| match is_kept(*side, *position) {
            true => Duration::ZERO,
            false => plans[*side].pause + length(&plans[*side].trials[*position].scenario.run),
        };
        let turn = |(index, (side, _)): (usize, &(usize, usize))| Turn {
            number: index + 1,
            of: order.len(),
            side: if plans.len() == 1 { "" } else { ["A ", "B "][*side] },
            rest: order[index + 1..].iter().map(took).sum(),
        };
        order.iter().enumerate().map(turn).collect()
    }
}

/// The load that was measured until now: the remaining time is estimated from it.
#[derive(Default)]
struct Measured {
    messages: u64,
    payload_bytes: u64,
}

enum Display {
    Quiet,
    Plain { last: Option<Instant> },
    Terminal(ProgressBar),
    Screen(Box<Screen>),
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Quiet,
    /// A line that renews itself, or plain lines where that is not possible.
    Line,
    Screen,
}

impl Progress {
    /// Of the trial at `position` of `plan`, whose turn it is.
    pub fn new(style: Style, plan: &Plan, position: usize, turn: &Turn) -> Self {
        let Turn { number, of, side, rest } = turn;
        let screen = || {
            let kind = &plan.trials[position].scenario.broker.kind;
            Screen::open(format!("{} · {kind} · trial {number} of {of}", plan.name)).ok()
        };
        let display = match style {
            Style::Quiet => Display::Quiet,
            Style::Screen => screen().map_or_else(Display::line, |screen| Display::Screen(Box::new(screen))),
            Style::Line => Display::line(),
        };
        let name = if *of > 1 { format!("{number}/{of} {side}") } else { String::new() };
        Progress::on(display, name, plan.trials[position].scenario.run.clone(), *rest)
    }

    /// Of a trial that is named so, after which the run goes on for `rest`.
    pub fn named(quiet: bool, position: String, limits: RunLimits, rest: Duration) -> Self {
        Progress::on(if quiet { Display::Quiet } else { Display::line() }, position, limits, rest)
    }

    fn on(display: Display, position: String, limits: RunLimits, rest: Duration) -> Self {
        Progress {
            display,
            position,
            limits,
            rest,
            phase: Phase::Prepare,
            since: Instant::now(),
            sampled: None,
            measured: Measured::default(),
            failed: 0,
            held_up: Vec::new(),
            behind: None,
        }
    }

    pub fn phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = Instant::now();
        match &mut self.display {
            Display::Terminal(bar) => {
                bar.set_message(format!("{}{}", self.position, name(phase)));
                bar.tick();
            }
            Display::Screen(screen) => screen.phase(name(phase).to_owned()),
            Display::Quiet | Display::Plain { .. } => {}
        }
    }

    /// Whether [`Progress::topics`] has a place for them.
    pub fn wants_topics(&self) -> bool {
        matches!(self.display, Display::Screen(_))
    }

    /// Where each topic is, after every sample.
    pub fn topics(&mut self, topics: &[TopicProgress]) {
        let text = self.elapsed_and_left();
        let elapsed = self.sampled.replace(Instant::now()).map_or(Duration::from_secs(1), |last| last.elapsed());
        if let Display::Screen(screen) = &mut self.display {
            screen.topics(topics, elapsed.as_secs_f64());
            screen.phase(text);
        }
    }

    /// What holds messages up now. A plain line tells of a condition that has just begun without waiting for its turn.
    pub fn conditions(&mut self, lasting: &[Condition]) {
        let now = Instant::now();
        let held_for = |condition: &Condition| now.saturating_duration_since(condition.begin);
        let told = |condition: &Condition| format!("{}, for {}", condition.told(), short(held_for(condition)));
        let has_begun = lasting.len() > self.held_up.len();
        self.held_up = lasting.iter().map(told).collect();
        match &mut self.display {
            Display::Plain { last } if has_begun => *last = None,
            Display::Screen(screen) => {
                let waiting: Vec<&str> = self.behind.iter().chain(&self.held_up).map(String::as_str).collect();
                screen.conditions(waiting.join(" · "));
            }
            Display::Quiet | Display::Plain { .. } | Display::Terminal(_) => {}
        }
        let is_early = matches!(&self.display, Display::Plain { last: Some(last) } if last.elapsed() < PLAIN_EVERY);
        // Without a load, nothing else prints a line.
        if self.phase == Phase::Prepare && !is_early && !self.held_up.is_empty() {
            self.print(format!("{}{} · {}", self.position, self.elapsed(), self.held_up.join(" · ")));
        }
    }

    /// How far the opening of connections without messages is.
    pub fn idle_connections(&mut self, ready: u64, failed: u64, wanted: u64) {
        let failed = if failed > 0 { format!(", {} failed", readable::count(failed)) } else { String::new() };
        let text = format!("{} of {} idle connections ready{failed}", readable::count(ready), readable::count(wanted));
        self.print(format!("{}{} · {text}", self.position, self.elapsed()));
    }

    pub fn second(&mut self, second: &Second, outcomes: &Interval) {
        if let Display::Screen(screen) = &mut self.display {
            screen.second(second, outcomes);
        }
        self.joint_second(second, outcomes.headline());
    }

    /// A second of several processes, with the name of its latencies.
    pub fn joint_second(&mut self, second: &Second, headline: &str) {
        self.failed += second.failed;
        self.behind = behind(second);
        if second.phase == Phase::Measure {
            self.measured.messages += second.acknowledged;
            self.measured.payload_bytes += second.payload_bytes;
        }
        let due = match &self.display {
            Display::Quiet | Display::Screen(_) => false,
            Display::Plain { last } => last.is_none_or(|last| last.elapsed() >= PLAIN_EVERY),
            Display::Terminal(_) => true,
        };
        if !due {
            return;
        }
        self.print(self.line(second, headline));
    }

    fn print(&mut self, line: String) {
        match &mut self.display {
            Display::Quiet => {}
            Display::Plain { last } => {
                *last = Some(Instant::now());
                notice!("{line}");
            }
            Display::Terminal(bar) => {
                bar.set_message(line);
                bar.tick();
            }
            Display::Screen(screen) => screen.phase(line),
        }
    }

    /// Shows how much is left of the pause before the trial.
    pub fn pausing(&mut self, left: Duration) {
        let is_early = matches!(&self.display, Display::Plain { last: Some(last) } if last.elapsed() < PLAIN_EVERY);
        if !is_early {
            self.print(format!("{}pausing · {} left", self.position, short(left)));
        }
    }

    /// Prints a line that does not concern progress. It is printed with `--quiet` as well.
    pub fn notice(&self, line: &str) {
        match &self.display {
            Display::Terminal(bar) => bar.suspend(|| notice!("{line}")),
            Display::Quiet | Display::Plain { .. } => notice!("{line}"),
            Display::Screen(_) => screen::tell(line),
        }
    }

    /// Prints that a command of a fault has begun or ended.
    pub fn fault(&self, sentence: &str) {
        if !matches!(self.display, Display::Quiet) {
            self.notice(&format!("{}{sentence}", self.position));
        }
    }

    pub fn finish(self) {
        if let Display::Terminal(bar) = self.display {
            bar.finish_and_clear();
        }
    }

    fn line(&self, second: &Second, headline: &str) -> String {
        let seconds = (second.end_ns - second.begin_ns) as f64 / 1e9;
        let mut parts = vec![format!("{}{}", self.position, self.elapsed())];
        // When consumers are waited for, every message has its outcome.
        if self.phase != Phase::Verify {
            parts.push(format!("{} messages/s", readable::rate(second.acknowledged as f64 / seconds)));
            parts.push(format!("{}/s", readable::bytes(second.payload_bytes as f64 / seconds)));
            if let (Some(p50), Some(p99)) = (second.p50_ns, second.p99_ns) {
                let [p50, p99] = [p50, p99].map(|value_ns| readable::duration(value_ns as f64));
                parts.push(format!("{headline} p50 {p50} p99 {p99}"));
            }
            parts.push(format!("{} in flight", readable::count(second.in_flight)));
        }
        if self.failed > 0 {
            parts.push(format!("{} failed", readable::count(self.failed)));
        }
        parts.extend(self.behind.clone());
        parts.extend(self.held_up.iter().cloned());
        parts.push(format!("client {:.2} cores", second.cpu_cores));
        parts.extend(self.left_of_the_run());
        parts.join(" · ")
    }

    fn elapsed_and_left(&self) -> String {
        [Some(self.elapsed()), self.left_of_the_run()].into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }

    /// Of a run of several trials.
    fn left_of_the_run(&self) -> Option<String> {
        let left = || self.remaining().unwrap_or_default() + self.rest;
        (!self.rest.is_zero()).then(|| format!("{} left of the run", short(left())))
    }

    /// The phase, with how long the trial has been in it, and how long it takes if that is known.
    fn elapsed(&self) -> String {
        let elapsed = self.since.elapsed();
        let whole = match self.phase {
            Phase::WarmUp => Some(self.limits.warm_up),
            Phase::Measure => self.remaining().map(|remaining| elapsed + remaining),
            Phase::Prepare | Phase::Drain | Phase::Verify => None,
        };
        let of = whole.map(|whole| format!(" of {}", short(whole))).unwrap_or_default();
        format!("{} {}{of}", name(self.phase), short(elapsed))
    }

    /// Until the first of the trial's limits is reached, at the pace so far.
    fn remaining(&self) -> Option<Duration> {
        let (stop, elapsed) = (self.limits.stop, self.since.elapsed());
        match self.phase {
            Phase::Prepare | Phase::WarmUp => {
                let warm_up = self.limits.warm_up;
                let warmed_up = if self.phase == Phase::WarmUp { elapsed } else { Duration::ZERO };
                return stop.duration.map(|duration| (warm_up + duration).saturating_sub(warmed_up));
            }
            Phase::Measure => {}
            Phase::Drain | Phase::Verify => return None,
        }
        let by_pace = |limit: u64, done: u64| {
            (done > 0).then(|| elapsed.mul_f64((limit.saturating_sub(done)) as f64 / done as f64))
        };
        [
            stop.duration.map(|duration| duration.saturating_sub(elapsed)),
            stop.messages.and_then(|messages| by_pace(messages, self.measured.messages)),
            stop.payload_bytes.and_then(|bytes| by_pace(bytes, self.measured.payload_bytes)),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl Display {
    fn line() -> Self {
        if !std::io::stderr().is_terminal() {
            return Display::Plain { last: None };
        }
        let bar = ProgressBar::new_spinner();
        // The template is a constant without placeholders that could be wrong.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Display::Terminal(bar)
    }
}

/// How fast the group or pipeline that is the furthest behind receives, and how many messages it is behind, where these are more than are acknowledged in
/// a second.
fn behind(second: &Second) -> Option<String> {
    let groups =
        second.groups.iter().filter_map(|group| Some((u64::try_from(group.consumer_lag?).ok()?, group.consumed)));
    let (behind, received) = groups.chain(second.consumer_lag.zip(second.finished)).max()?;
    let per_second = |messages: u64| messages as f64 * 1e9 / (second.end_ns - second.begin_ns).max(1) as f64;
    let words = || format!("{} received/s, {} behind", readable::rate(per_second(received)), readable::count(behind));
    (behind as f64 > per_second(second.acknowledged)).then(words)
}

/// How long a trial loads, where its duration is set.
fn length(limits: &RunLimits) -> Duration {
    limits.stop.duration.map_or(Duration::ZERO, |duration| limits.warm_up + duration)
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Prepare => "preparing",
        Phase::WarmUp => "warming up",
        Phase::Measure => "measuring",
        Phase::Drain => "draining",
        Phase::Verify => "verifying",
    }
}

fn short(duration: Duration) -> String {
    // Rounded: a phase of 10 s that has 9.99 s left has not gone on for a second.
    let seconds = duration.as_secs_f64().round() as u64;
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{:02}s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(phase: Phase) -> Progress {
        let text = "broker.kind = \"null\"\nrun.warm_up = \"10s\"\nrun.duration = \"30s\"";
        let kinds = crate::engine::kinds();
        let plan = crate::scenario::parse_for(kinds, text, "x.toml", &[], std::path::Path::new(".")).unwrap();
        let mut progress = Progress::new(Style::Quiet, &plan, 0, &Turn::default());
        progress.phase(phase);
        progress
    }

    #[test]
    fn turns_of_both_sides_are_counted_together() {
        let text = "broker.kind = \"null\"\nrun.warm_up = \"10s\"\nrun.duration = \"30s\"\nsweep.trials = 2";
        let plan =
            crate::scenario::parse_for(crate::engine::kinds(), text, "x.toml", &[], std::path::Path::new(".")).unwrap();
        let order = [(0, 0), (1, 0), (1, 1), (0, 1)];
        let turns = Turn::all(&[&plan, &plan], &order, |_, _| false);
        let told: Vec<String> = turns.iter().map(|turn| format!("{}/{} {}", turn.number, turn.of, turn.side)).collect();
        assert_eq!(told, ["1/4 A ", "2/4 B ", "3/4 B ", "4/4 A "]);
        let rests = |turns: &[Turn]| turns.iter().map(|turn| turn.rest.as_secs()).collect::<Vec<_>>();
        assert_eq!(rests(&turns), [120, 80, 40, 0]);
        let resumed = Turn::all(&[&plan, &plan], &order, |side, position| (side, position) == (1, 1));
        assert_eq!(rests(&resumed), [80, 40, 40, 0], "the third is not run again");
    }

    #[test]
    fn phase_shows_its_own_length_if_it_has_an_end() {
        let shown = |phase| progress(phase).elapsed();
        assert!(shown(Phase::WarmUp).starts_with("warming up ") && shown(Phase::WarmUp).ends_with("s of 10s"));
        assert!(shown(Phase::Measure).starts_with("measuring ") && shown(Phase::Measure).ends_with("s of 30s"));
        assert!(shown(Phase::Verify).starts_with("verifying ") && !shown(Phase::Verify).contains(" of "));
    }
}
