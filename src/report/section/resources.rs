//! What the load generator and the broker used while a trial ran: CPU and memory, each in one chart, so that the busier of the two is
//! seen.

use super::several;
use super::timeline::{Timeline, figure};
use crate::record::SeriesRow;
use crate::record::readable::bytes;
use crate::report::figure::Figure;
use crate::report::svg::unit::{Unit, moment};

/// The styles of both lines in both charts.
const CLIENT: usize = 1;
const BROKER: usize = 2;

/// Growth from the first to the last measured second that is worth a sentence.
const MUCH_GROWTH: f64 = 0.25;

pub(super) fn cpu(timeline: &Timeline<'_>) -> Figure {
    let mut lines = vec![timeline.line("client", CLIENT, |row| Some(row.cpu_cores))];
    let mut sentence = of_client(timeline);
    if timeline.rows.iter().any(|(_, row)| row.broker_cpu_cores.is_some()) {
        lines.push(timeline.line("broker", BROKER, |row| row.broker_cpu_cores));
        sentence += &of_broker(timeline);
    } else if timeline.record.environment.embedded {
        sentence += " The broker ran in the same process, so its CPU is among this.";
    } else {
        sentence += " What the broker used is unknown: `broker.watch` names its processes.";
    }
    let title = if lines.len() > 1 { "CPU of client and broker" } else { "CPU of the load generator" };
    figure("cpu", title, sentence, timeline, "cores", Unit::Cores, lines)
}

/// The busiest measured second, with its value.
fn busiest(timeline: &Timeline<'_>, cores: impl Fn(&SeriesRow) -> Option<f64>) -> String {
    let known = timeline.measured_rows().filter_map(|(at, row)| Some((at, cores(row)?)));
    known
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .map(|(at, cores)| format!(", {cores:.2} in its busiest second (at {})", moment(at)))
        .unwrap_or_default()
}

fn of_client(timeline: &Timeline<'_>) -> String {
    let client = &timeline.record.client;
    let left = match client.cores_used / client.cores_available.max(f64::MIN_POSITIVE) {
        share if share >= 0.9 => "it had none left",
        share if share >= 0.6 => "it had little left",
        _ => "it had CPU left",
    };
    format!("brokermark used {} on average{}: {left}.", client.cores(), busiest(timeline, |row| Some(row.cpu_cores)))
}

fn of_broker(timeline: &Timeline<'_>) -> String {
    let Some(usage) = &timeline.record.broker_usage else { return String::new() };
    let Some(cores) = usage.cores() else { return String::new() };
    let more = match usage.cores_used {
        Some(used) if used > timeline.record.client.cores_used => " The broker was the busier of the two.",
        _ => "",
    };
    let most = busiest(timeline, |row| row.broker_cpu_cores);
    let whose = match usage.sources.len() {
        0 | 1 => "The broker".to_owned(),
        number => format!("The broker's {}", several(number, "source")),
    };
    format!(" {whose} used {cores}{most}.{more}")
}

/// Of both; `None` where no row knows of any.
pub(super) fn memory(timeline: &Timeline<'_>) -> Option<Figure> {
    let bytes_of = |known: Option<u64>| known.map(|bytes| bytes as f64);
    let sides = [
        ("client", CLIENT, (|row| row.memory_bytes) as fn(&SeriesRow) -> Option<u64>),
        ("broker", BROKER, |row| row.broker_memory_bytes),
    ];
    let (mut lines, mut sentences) = (Vec::new(), Vec::new());
    for (name, style, of) in sides {
        let known: Vec<u64> = timeline.measured_rows().filter_map(|(_, row)| of(row)).collect();
        let (Some(first), Some(last)) = (known.first(), known.last()) else { continue };
        lines.push(timeline.line(name, style, |row| bytes_of(of(row))));
        sentences.push(course(name, *first as f64, *last as f64, known.iter().copied().max().unwrap_or(0) as f64));
    }
    if lines.is_empty() {
        return None;
    }
    if let Some(peak) = timeline.record.client.peak_memory_bytes {
        sentences.push(format!("The client's peak was {}.", bytes(peak as f64)));
    }
    let title = if lines.len() > 1 { "Memory of client and broker" } else { "Memory of the load generator" };
    Some(figure("memory", title, sentences.join(" "), timeline, "resident memory", Unit::Bytes, lines))
}

fn course(name: &str, first: f64, last: f64, most: f64) -> String {
    let grew = last / first.max(1.0) - 1.0;
    if grew.abs() >= MUCH_GROWTH {
        let verb = if grew > 0.0 { "grew" } else { "fell" };
        return format!("The {name} {verb} from {} to {} in the measured time.", bytes(first), bytes(last));
    }
    format!("The {name} stayed near {}, at most {}.", bytes(last), bytes(most))
}
