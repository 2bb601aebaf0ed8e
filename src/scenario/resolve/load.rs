//! `[producers]` and `[load]`: the headers of messages, the load model, its schedule and its pacing.

use super::line_sizes::Sizes;
use super::{Reader, path};
use crate::limits::TRACE_HEADER_NAME;
use crate::scenario::tables::units::Rate;
use crate::scenario::tables::{Headers, Load, LoadKind, LoadTable, Pacing, Schedule, ScheduleTable, StepTable};

/// Different lists of headers. Each is prepared before the load.
const MAX_HEADER_SETS: usize = 1000;

/// One message in each nanosecond: beyond it, no clock could tell two intended times apart.
pub(super) const FASTEST: f64 = 1e9;

pub(super) fn read(reader: &Reader<'_>, table: &LoadTable, sizes: Sizes) -> (Load, Pacing) {
    let is_open = table.rate.is_some() || table.schedule.is_some();
    if table.pacing.is_some() && !is_open {
        let message = "a closed loop has no intended times, so it has no `load.pacing`";
        reader.refuse("load.pacing", message, "remove it, or write a `rate`");
    }
    let pacing = table.pacing.unwrap_or_default();
    if pacing.slice.is_some_and(|slice| slice > pacing.wake_interval) {
        let message = "`load.pacing.slice` is longer than `load.pacing.wake_interval`";
        reader.refuse("load.pacing.slice", message, "make it shorter, or the interval longer");
    }
    (load(reader, table, sizes), pacing)
}

fn load(reader: &Reader<'_>, table: &LoadTable, sizes: Sizes) -> Load {
    reader.exclusive("load", "rate", "schedule", "keep one of them: `rate` is short for a constant schedule");
    if table.model == Some(LoadKind::Closed) {
        for key in ["rate", "schedule"] {
            let reason = format!("a closed loop sends as fast as its windows allow, so it has no `{key}`");
            reader.forbid(&format!("load.{key}"), &reason, "remove it, or write `model = \"open\"`");
        }
        return Load::Closed;
    }
    let rates = Rates { reader, sizes };
    let schedule = match (table.rate, &table.schedule) {
        (Some(rate), _) => rates.read("load.rate", rate.0).map(|rate| Schedule::Constant { rate }),
        (None, Some(table)) => schedule(&rates, table),
        (None, None) => {
            if table.model == Some(LoadKind::Open) && !reader.has("load.schedule") {
                reader.missing("load", "rate", "an open loop needs `rate = \"100k/s\"` or a `schedule`");
            }
            None
        }
    };
    schedule.map_or(Load::Closed, Load::Open)
}

/// Reads rates as messages per second.
struct Rates<'a> {
    reader: &'a Reader<'a>,
    sizes: Sizes,
}

impl Rates<'_> {
    fn read(&self, key: &str, rate: Rate) -> Option<f64> {
        let rate = match (rate, self.sizes.mean) {
            (Rate::MessagesPerSecond(rate), _) => rate,
            (Rate::BytesPerSecond(bytes), Some(mean)) => bytes / mean,
            (Rate::BytesPerSecond(_), None) => {
                let message = "bytes per second need payloads whose size is known beforehand";
                self.reader.refuse(key, message, "write messages per second, as in \"10k/s\"");
                return None;
            }
        };
        if rate > FASTEST {
            let message = format!("`{key}` is more than a message in each nanosecond");
            self.reader.refuse(key, message, "write less than 1G/s");
            return None;
        }
        Some(rate)
    }

    fn schedule_rate(&self, key: &str, rate: Rate) -> Option<f64> {
        self.read(&format!("load.schedule.{key}"), rate)
    }
}

fn schedule(rates: &Rates<'_>, table: &ScheduleTable) -> Option<Schedule> {
    let schedule = match table {
        ScheduleTable::Constant { rate } => Schedule::Constant { rate: rates.schedule_rate("rate", rate.0)? },
        ScheduleTable::Ramp { from, to, over } => {
            let (from, to) = (rates.schedule_rate("from", from.0), rates.schedule_rate("to", to.0));
            Schedule::Ramp { from: from?, to: to?, over: *over }
        }
        ScheduleTable::Steps { steps } => {
            let step = |(index, step): (usize, &StepTable)| {
                Some((rates.schedule_rate(&format!("steps[{index}].rate"), step.rate.0)?, step.length))
            };
            // Every step is read, so that one reading finds the problems of all.
            let steps: Vec<_> = steps.iter().enumerate().map(step).collect();
            Schedule::Steps(steps.into_iter().collect::<Option<Vec<_>>>()?)
        }
        ScheduleTable::Bursts { base, burst, every, length } => {
            let (base, burst) = (rates.schedule_rate("base", base.0), rates.schedule_rate("burst", burst.0));
            if length >= every {
                let message = "a burst would never end: `for` is not below `every`";
                rates.reader.refuse("load.schedule.for", message, "make `for` shorter than `every`");
            }
            Schedule::Bursts { base: base?, burst: burst?, every: *every, length: *length }
        }
        ScheduleTable::Poisson { rate, seed } => {
            Schedule::Poisson { rate: rates.schedule_rate("rate", rate.0)?, seed: *seed }
        }
    };
    if schedule.rates().all(|rate| rate == 0.0) {
        let message = "every rate of the schedule is zero, so nothing would ever be sent";
        rates.reader.refuse("load.schedule", message, "give one of them messages, as in \"1k/s\"");
        return None;
    }
    Some(schedule)
}

/// What the messages have in turn, until all headers are at their first values again.
pub(super) fn header_sets(reader: &Reader<'_>, headers: &Headers) -> Vec<Vec<(String, String)>> {
    let headers = &headers.0;
    if headers.iter().any(|(name, _)| name == TRACE_HEADER_NAME) {
        let message = format!("the header `{TRACE_HEADER_NAME}` is brokermark's own");
        let place = path("producers.headers").key(TRACE_HEADER_NAME);
        reader.problems.key(place, message, "give yours another name");
    }
    let length = headers.iter().try_fold(1, |length, (_, values)| {
        let common = least_common_multiple(length, values.len());
        (common <= MAX_HEADER_SETS).then_some(common)
    });
    let Some(length) = length else {
        let message =
            format!("the lists in `producers.headers` combine to more than {MAX_HEADER_SETS} sets of headers");
        let advice = "give lists the same length, or lengths that divide each other";
        reader.refuse("producers.headers", message, advice);
        return vec![Vec::new()];
    };
    let set = |index: usize| {
        headers.iter().map(move |(name, values)| (name.clone(), values[index % values.len()].clone())).collect()
    };
    (0..length).map(set).collect()
}

fn least_common_multiple(one: usize, other: usize) -> usize {
    let (mut divisor, mut rest) = (one, other);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    one / divisor * other
}
