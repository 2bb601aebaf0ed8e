//! The load of a search's probes: the scenario's schedule, with its rates scaled to the rate that is probed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::record::readable::{duration, rate};
use crate::scenario::{Load, Point, Schedule};

/// What all probes have in common at all rates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    schedule: Schedule,
    /// Messages per second of the schedule as it is written, on average; `None` for a closed loop.
    mean: Option<f64>,
}

impl Shape {
    /// The shape of this load; of a closed loop, which has no rate, a constant one.
    ///
    /// # Errors
    /// When a probe of one rate cannot have this shape.
    pub(super) fn new(load: &Load) -> Result<Self, String> {
        let other = "search with a constant rate (--set load.rate=10k/s), with `kind = \"poisson\"` or with `kind = \"bursts\"`";
        let (schedule, mean) = match load {
            Load::Closed => (Schedule::Constant { rate: 1.0 }, None),
            Load::Open(schedule) => {
                if matches!(schedule, Schedule::Ramp { .. } | Schedule::Steps(_)) {
                    return Err(format!(
                        "a search finds one rate that holds, and the rate of `load.schedule` changes on the way: {other}"
                    ));
                }
                (schedule.clone(), Some(schedule.highest_lasting_rate()))
            }
        };
        Ok(Shape { schedule, mean })
    }

    /// The rate of the scenario itself; `None` for a closed loop.
    pub(super) fn own_rate(&self) -> Option<f64> {
        self.mean
    }

    pub(super) fn is_constant(&self) -> bool {
        matches!(self.schedule, Schedule::Constant { .. })
    }

    /// The time of which a probe lasts a multiple, so that both halves of it have as many bursts.
    pub(super) fn period(&self) -> Option<Duration> {
        match self.schedule {
            Schedule::Bursts { every, .. } => Some(every * 2),
            _ => None,
        }
    }

    /// The schedule of the probe with this number, from 0, at this rate. Each probe draws Poisson arrivals of its own, since with the
    /// same ones again, a repeated probe would tell nothing new.
    pub(super) fn schedule(&self, per_second: f64, number: usize) -> Schedule {
        match self.schedule.scaled(per_second / self.mean.unwrap_or(1.0)) {
            Schedule::Constant { .. } => Schedule::Constant { rate: per_second },
            Schedule::Poisson { seed, .. } => {
                Schedule::Poisson { rate: per_second, seed: seed.wrapping_add(number as u64) & i64::MAX as u64 }
            }
            scaled => scaled,
        }
    }

    /// What the load is called in a sentence.
    pub(super) fn words(&self) -> String {
        match &self.schedule {
            Schedule::Poisson { .. } => "Poisson arrivals".to_owned(),
            Schedule::Bursts { base, burst, every, length } => {
                let height = if *base > 0.0 {
                    format!("at {} times the base rate", rate(burst / base))
                } else {
                    "with nothing between them".to_owned()
                };
                format!(
                    "bursts of {} every {} {height}, by their mean rate",
                    duration(length.as_nanos() as f64),
                    duration(every.as_nanos() as f64)
                )
            }
            _ => "a constant rate".to_owned(),
        }
    }
}

/// The swept keys of a probe with this schedule.
pub(super) fn point(schedule: &Schedule) -> Point {
    let text = |rate: &f64| toml::Value::String(format!("{rate}/s"));
    let key = |key: &str, rate: &f64| (key.to_owned(), text(rate));
    match schedule {
        Schedule::Poisson { rate, .. } => [key("load.schedule.rate", rate)].into(),
        Schedule::Bursts { base, burst, .. } => {
            [key("load.schedule.base", base), key("load.schedule.burst", burst)].into()
        }
        Schedule::Constant { rate } => [key("load.rate", rate)].into(),
        Schedule::Ramp { .. } | Schedule::Steps(_) => Point::new(),
    }
}

/// Writes this schedule into the `load` of a scenario's document.
pub(super) fn write(schedule: &Schedule, load: &mut Value) {
    let text = |rate: &f64| json!(format!("{rate}/s"));
    match schedule {
        Schedule::Poisson { rate, seed } => {
            load["schedule"]["rate"] = text(rate);
            load["schedule"]["seed"] = json!(seed);
        }
        Schedule::Bursts { base, burst, .. } => {
            load["schedule"]["base"] = text(base);
            load["schedule"]["burst"] = text(burst);
        }
        Schedule::Constant { rate } => load["rate"] = text(rate),
        Schedule::Ramp { .. } | Schedule::Steps(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_scaled_to_the_rate_of_a_probe() {
        let poisson = Shape::new(&Load::Open(Schedule::Poisson { rate: 500.0, seed: 7 })).unwrap();
        assert_eq!(poisson.schedule(1e3, 2), Schedule::Poisson { rate: 1e3, seed: 9 });
        assert_eq!(poisson.own_rate(), Some(500.0));
        let (every, length) = (Duration::from_secs(10), Duration::from_secs(1));
        let bursts = Schedule::Bursts { base: 100.0, burst: 1_100.0, every, length };
        let bursts = Shape::new(&Load::Open(bursts)).unwrap();
        assert_eq!((bursts.own_rate(), bursts.period()), (Some(200.0), Some(every * 2)));
        assert_eq!(bursts.schedule(400.0, 0), Schedule::Bursts { base: 200.0, burst: 2_200.0, every, length });
        assert!(bursts.words().ends_with(" every 10.0 s at 11.0 times the base rate, by their mean rate"));
        let alone = Schedule::Bursts { base: 0.0, burst: 1_100.0, every, length };
        let words = Shape::new(&Load::Open(alone)).unwrap().words();
        assert_eq!(words, "bursts of 1.00 s every 10.0 s with nothing between them, by their mean rate");
        let closed = Shape::new(&Load::Closed).unwrap();
        assert_eq!((closed.own_rate(), closed.schedule(5.0, 1)), (None, Schedule::Constant { rate: 5.0 }));
    }

    #[test]
    fn a_schedule_whose_rate_changes_once_is_refused() {
        let over = Duration::from_secs(9);
        for schedule in [Schedule::Ramp { from: 1.0, to: 2.0, over }, Schedule::Steps(vec![(1.0, over), (2.0, over)])] {
            let refused = Shape::new(&Load::Open(schedule)).unwrap_err();
            assert!(refused.contains("load.rate=10k/s"), "{refused}");
        }
    }
}
