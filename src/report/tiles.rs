//! The largest figures of a page, below its verdict.

use super::svg::escape;
use crate::evaluate::comparison::{Comparison, Design, FigureComparison, Outcome};
use crate::present::comparison::amount;
use crate::present::points::by_point;
use crate::present::search::probe_of_the_answer;
use crate::present::verdict;
use crate::record::readable::{self, bytes, count, duration, percent, rate};
use crate::record::{Latency, Pipeline, Record, SearchRecord, Status, saturating_sum};

/// Figures of a comparison that have a tile.
const MAX_COMPARED: usize = 5;

/// Figures with their units of so many characters or more are set in a smaller size, to have place in their tiles.
const LONG_FIGURE: usize = 8;
const LONGER_FIGURE: usize = 10;

/// A large figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Tile {
    pub label: String,
    pub figure: String,
    pub unit: String,
    pub note: String,
}

/// A tile; a unit stands smaller than its number.
fn tile(label: &str, figure: String, note: String) -> Tile {
    let (figure, unit) = match figure.split_once(' ') {
        Some((number, unit)) if !unit.contains(' ') => (number.to_owned(), unit.to_owned()),
        _ => (figure, String::new()),
    };
    Tile { label: label.to_owned(), figure, unit, note }
}

/// Those of one trial.
pub fn trial_tiles(record: &Record) -> Vec<Tile> {
    if record.status == Status::Failed && record.counts.attempted == 0 {
        return Vec::new();
    }
    let throughput = &record.throughput;
    let asked = match throughput.target_per_second {
        Some(wanted) => format!("wanted {}", rate(wanted)),
        None => "no rate was set".to_owned(),
    };
    let payload = format!("{asked}; {}/s of payload", bytes(throughput.payload_bytes_per_second));
    let mut tiles: Vec<Tile> = record.pipeline.iter().filter(|pipeline| pipeline.consumed > 0).flat_map(rows).collect();
    let label = if tiles.is_empty() { "messages per second" } else { "messages/s of producers" };
    if tiles.is_empty() || record.counts.attempted > 0 {
        tiles.push(tile(label, rate(throughput.messages_per_second), payload));
    }
    if let Some(latency) = record.headline_latency() {
        tiles.extend(latencies(latency, &record.headline.to_string()));
    }
    tiles.push(losses(record));
    let client = &record.client;
    let busy = client.cpu_ns_per_message.map(|cpu| format!("{} a message", duration(cpu)));
    let cores = format!("of {} cores", readable::cores(client.cores_available));
    tiles.push(tile(
        "client CPU",
        format!("{:.2}", client.cores_used),
        [Some(cores), busy].into_iter().flatten().collect::<Vec<_>>().join("; "),
    ));
    tiles.extend(broker_cpu(record));
    tiles
}

/// Those of several trials.
pub fn sweep_tiles(records: &[&Record]) -> Vec<Tile> {
    let any_counts = records.iter().any(|record| verdict::counts(record));
    let trusted = || records.iter().filter(|record| !any_counts || verdict::counts(record));
    let rate_of = |record: &&&Record| record.throughput.messages_per_second;
    let fastest = trusted().max_by(|one, other| rate_of(one).total_cmp(&rate_of(other)));
    let latency = fastest.and_then(|record| Some((record.headline_latency()?.p99_ns?, record.headline.to_string())));
    let lost = saturating_sum(records.iter().filter_map(|record| record.verification.as_ref()).map(|found| found.lost));
    let trials = crate::present::several(records.len(), "trial");
    let payload = trusted().map(|record| record.throughput.payload_bytes_per_second).fold(0.0, f64::max);
    let mut tiles = vec![
        tile("points", count(by_point(records).len() as u64), trials),
        tile(
            "most messages per second",
            rate(fastest.as_ref().map_or(0.0, rate_of)),
            format!("{}/s of payload at most", bytes(payload)),
        ),
    ];
    tiles.extend(latency.map(|(p99, name)| tile("p99 in that trial", duration(p99 as f64), format!("{name} time"))));
    if records.iter().any(|record| record.verification.is_some()) {
        tiles.push(tile("lost", count(lost), "over all trials".to_owned()));
    }
    tiles
}

/// Those of a search.
pub fn search_tiles(search: &SearchRecord) -> Vec<Tile> {
    let found = &search.answer;
    let confirmed = |held: f64| tile("messages per second", rate(held), "held in a longer probe too".to_owned());
    let short = |held: f64| tile("in short probes only", rate(held), "messages per second, not confirmed".to_owned());
    let held = found.rate_per_second.map(confirmed).or(found.unconfirmed_per_second.map(short));
    let interval = found.capacity_low.zip(found.capacity_high);
    let capacity = found.capacity_per_second.map(|capacity| {
        let note = interval.map(|(low, high)| format!("95 % interval {} … {}", rate(low), rate(high)));
        tile("rate that half of all probes hold", rate(capacity), note.unwrap_or_default())
    });
    let p99 = probe_of_the_answer(search).and_then(|probe| probe.p99_ns);
    let p99 = p99.map(|ns| tile("p99 at that rate", duration(ns as f64), "response time".to_owned()));
    let probes = tile("probes", search.probes.len().to_string(), format!("in {}", duration(search.took_ns as f64)));
    // The p99 belongs to the rate beside it.
    [held, p99, capacity, Some(probes)].into_iter().flatten().collect()
}

/// Those of two runs, where they have one point in common.
pub fn comparison_tiles(comparison: &Comparison) -> Vec<Tile> {
    let [point] = comparison.points.as_slice() else { return Vec::new() };
    // A ratio that is not certain is its interval: one number would say more than is known.
    let ratio = |figure: &FigureComparison| match (figure.outcome, figure.ratio_low.zip(figure.ratio_high)) {
        (Outcome::CannotTell, Some((low, high))) => format!("{low:.2}–{high:.2}"),
        _ => format!("{:.3}", figure.ratio),
    };
    let how = |figure: &FigureComparison| match (figure.outcome, figure.ratio_low.zip(figure.ratio_high)) {
        (Outcome::CannotTell, Some(_)) => "not certain: 95 % interval".to_owned(),
        (_, Some((low, high))) => format!("95 % interval {low:.3}–{high:.3}"),
        _ if comparison.design == Design::InTurn => "by pairs".to_owned(),
        _ => "by trials".to_owned(),
    };
    let tile = |figure: &FigureComparison| Tile {
        label: format!("{}, B / A", figure.figure),
        figure: ratio(figure),
        unit: String::new(),
        note: format!(
            "{}; medians: A {}, B {}",
            how(figure),
            amount(figure, figure.a.median),
            amount(figure, figure.b.median)
        ),
    };
    point.figures.iter().take(MAX_COMPARED).map(tile).collect()
}

/// What a pipeline wrote: one tile for all of its sinks where they got the same.
fn rows(pipeline: &Pipeline) -> Vec<Tile> {
    let mut tiles: Vec<Tile> = Vec::new();
    for sink in &pipeline.sinks {
        let figure = rate(sink.written_per_second);
        match tiles.iter_mut().find(|tile| tile.figure == figure) {
            Some(tile) => tile.note += &format!(", {}", sink.name),
            None => tiles.push(tile("rows per second", figure, format!("written to {}", sink.name))),
        }
    }
    if tiles.is_empty() {
        tiles.push(tile(
            "consumed per second",
            rate(pipeline.consumed_per_second),
            "messages, by the pipeline".to_owned(),
        ));
    }
    tiles
}

fn broker_cpu(record: &Record) -> Option<Tile> {
    let usage = record.broker_usage.as_ref()?;
    let cores = match usage.cores_of_machine {
        Some(cores) => format!("of {cores} cores"),
        None => "cores".to_owned(),
    };
    let memory = usage.memory_bytes_max.map(|most| format!("{} of memory", bytes(most as f64)));
    let note = [Some(cores), memory].into_iter().flatten().collect::<Vec<_>>().join("; ");
    Some(tile("broker CPU", format!("{:.2}", usage.cores_used?), note))
}

fn latencies(latency: &Latency, name: &str) -> Vec<Tile> {
    let meaning = if name == "response" {
        "intended → acknowledged by the broker"
    } else {
        "sent → acknowledged by the broker"
    };
    let (median, p50_ns) = (format!("median {name} time"), latency.supports(0.5).then_some(latency.p50_ns));
    let figures = [
        (0.5, p50_ns, median.as_str(), meaning),
        (0.99, latency.p99_ns, "p99", "1 of 100 took longer"),
        (0.999, latency.p99_9_ns, "p99.9", "1 of 1,000 took longer"),
    ];
    let known = figures.into_iter().filter_map(|(quantile, value_ns, label, note)| {
        let few = if latency.is_of_few_events(quantile) { "; few events made it" } else { "" };
        Some(tile(label, duration(value_ns? as f64), note.to_owned() + few))
    });
    known.collect()
}

fn losses(record: &Record) -> Tile {
    let counts = &record.counts;
    match &record.verification {
        Some(verified) => {
            // Losses are those of all groups, the warm-up's too.
            let groups = verified.groups.len().max(1) as u64;
            let acknowledged = counts.acknowledged.saturating_add(counts.warm_up.acknowledged);
            let all = count(acknowledged.saturating_mul(groups));
            let note = match groups {
                1 => format!("of {all} acknowledged and verified"),
                _ => format!("of {all} that {groups} groups were to receive"),
            };
            tile("lost", count(verified.lost), note)
        }
        None => {
            let missing = record.without_acknowledgement();
            let due = counts.attempted.saturating_add(counts.unsent).saturating_sub(record.aborted_on_purpose());
            let share = percent(missing as f64 / due.max(1) as f64);
            tile("not acknowledged", count(missing), format!("{share} of {}; arrival was not verified", count(due)))
        }
    }
}

impl Tile {
    pub fn html(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(&self.unit)) };
        let length = self.figure.chars().count() + self.unit.chars().count();
        format!(
            "<div><dt>{}</dt><dd><b{}>{}{unit}</b><span>{}</span></dd></div>",
            escape(&self.label),
            match length {
                LONGER_FIGURE.. => " class=\"longer\"",
                LONG_FIGURE.. => " class=\"long\"",
                _ => "",
            },
            escape(&self.figure),
            escape(&self.note)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::FailureClass;
    use crate::record::sample;

    #[test]
    fn messages_that_were_aborted_on_purpose_are_not_missing() {
        let mut record = sample::record();
        record.errors[0].class = FailureClass::Aborted;
        record.verification = None;
        let tile = losses(&record);
        assert_eq!((tile.figure.as_str(), tile.note.as_str()), ("1", "0.0002 % of 499,997; arrival was not verified"));
    }

    #[test]
    fn losses_are_of_what_all_groups_were_to_receive() {
        let mut record = sample::record();
        assert_eq!(losses(&record).note, "of 599,996 acknowledged and verified");
        let groups = &mut record.verification.as_mut().unwrap().groups;
        groups.extend_from_within(..);
        assert_eq!(losses(&record).note, "of 1,199,992 that 2 groups were to receive");
    }

    #[test]
    fn a_median_that_cannot_be_stated_has_no_tile() {
        let mut latency = sample::record().latency.response.unwrap();
        (latency.p99_ns, latency.p99_9_ns) = (None, None);
        for (independent, tiles) in [(19, 0), (20, 1)] {
            latency.independent = Some(independent);
            assert_eq!(latencies(&latency, "response").len(), tiles);
        }
    }
}
