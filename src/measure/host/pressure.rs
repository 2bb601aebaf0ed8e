//! How long tasks of the whole machine waited for a resource: `/proc/pressure` (kernel documentation, accounting/psi).

use std::fs;
use std::time::Duration;

/// Time during which at least one task waited for the resource, since the machine started; `None` where the kernel does not
/// account for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PressureTotals {
    pub cpu: Option<Duration>,
    pub memory: Option<Duration>,
    pub io: Option<Duration>,
}

/// Shares (0 to 1) of a stretch of time during which at least one task waited for the resource.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pressure {
    pub cpu: Option<f64>,
    pub memory: Option<f64>,
    pub io: Option<f64>,
}

impl PressureTotals {
    pub fn now() -> Self {
        let of = |resource: &str| parse(&fs::read_to_string(format!("/proc/pressure/{resource}")).ok()?);
        PressureTotals { cpu: of("cpu"), memory: of("memory"), io: of("io") }
    }

    /// Shares of the time `elapsed` since `begin`.
    pub fn since(self, begin: PressureTotals, elapsed: Duration) -> Pressure {
        let share = |now: Option<Duration>, begin: Option<Duration>| {
            let waited = now?.saturating_sub(begin?);
            (!elapsed.is_zero()).then(|| (waited.as_secs_f64() / elapsed.as_secs_f64()).min(1.0))
        };
        Pressure {
            cpu: share(self.cpu, begin.cpu),
            memory: share(self.memory, begin.memory),
            io: share(self.io, begin.io),
        }
    }
}

/// The line `some avg10=0.00 avg60=0.39 avg300=8.70 total=212608509`, whose total is in microseconds.
fn parse(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_some_is_read_and_shares_are_of_the_time_in_between() {
        let text =
            "some avg10=0.00 avg60=0.39 avg300=8.70 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse(text), Some(Duration::from_millis(2500)));
        assert_eq!(parse("full avg10=0.00 total=7\n"), None);
        let at = |cpu| PressureTotals { cpu: Some(Duration::from_secs(cpu)), ..PressureTotals::default() };
        let pressure = at(7).since(at(5), Duration::from_secs(8));
        assert_eq!(pressure, Pressure { cpu: Some(0.25), ..Pressure::default() });
        assert_eq!(at(7).since(at(5), Duration::from_secs(1)).cpu, Some(1.0));
        assert_eq!(at(7).since(at(5), Duration::ZERO).cpu, None);
    }
}
