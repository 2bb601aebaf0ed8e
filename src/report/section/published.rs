//! The figures that were published of a reproduced benchmark, beside those of the run that reproduces it, with their ratio.

use serde_json::Value;

use super::points::{self, Point, amount};
use super::{Part, Section, plain, texts};
use crate::record::Record;
use crate::record::readable::{duration, rate};
use crate::report::figure::{Figure, PHONE, Table, WIDE};
use crate::report::publications::{self, Publication, Quantity};
use crate::report::svg::Shape;
use crate::report::svg::dots::{Dots, Group, Spot};
use crate::report::svg::escape;
use crate::report::svg::unit::Unit;
use crate::statistics::median;

/// Fewer rows than this are a table only.
const MIN_OF_CHART: usize = 3;

const SHAPES: (Shape, Shape) = (Shape { height: 300.0, ..WIDE }, Shape { height: 280.0, ..PHONE });

/// A published row with the point that repeats it.
struct Pair<'a> {
    /// The value of the publication's key, as number and as text.
    place: f64,
    name: String,
    published: &'static [f64],
    here: Option<&'a Point<'a>>,
}

/// `None`: nothing was published of the scenario, or of none of the run's points.
pub fn section(records: &[&Record]) -> Option<Section> {
    let publication = publications::of(&records.first()?.scenario_name)?;
    let note = format!("Published: {}. {}", publication.source, publication.caution);
    if publication.rows.is_empty() {
        return Section::of("published", TITLE, vec![Part::Html(format!("<p>{}</p>", escape(&note)))]);
    }
    let all = points::of(records);
    let pairs = pairs(publication, &all);
    if pairs.iter().all(|pair| pair.here.is_none()) {
        return None;
    }
    let sentence = sentence(publication, &pairs);
    let table = table(publication, &pairs);
    let parts = if pairs.len() < MIN_OF_CHART {
        vec![Part::Html(format!("<p>{}</p><p class=\"note\">{}</p>{}", escape(&sentence), escape(&note), table.html()))]
    } else {
        let chart = Part::figure(chart(publication, &pairs, sentence));
        vec![chart, Part::Html(format!("<p class=\"note\">{}</p>{}", escape(&note), table.html()))]
    };
    Section::of("published", TITLE, parts)
}

const TITLE: &str = "Beside the published figures";

/// The value of `key` of a point: as it was swept, or as the scenario has it.
fn value<'a>(point: &'a Point<'_>, key: &str) -> Option<&'a Value> {
    let in_scenario = || {
        let first = &point.records.first()?.scenario;
        key.split('.').try_fold(first, |value, part| value.get(part))
    };
    point.values.get(key).or_else(in_scenario)
}

fn pairs<'a>(publication: &Publication, all: &'a [Point<'a>]) -> Vec<Pair<'a>> {
    let pair = |(place, published): &(f64, &'static [f64])| {
        let is_of_it = |point: &&Point<'_>| {
            publication.key.is_empty() || value(point, publication.key).and_then(amount) == Some(*place)
        };
        let here = all.iter().find(is_of_it);
        let text = here.and_then(|point| value(point, publication.key)).map(plain);
        Pair { place: *place, name: text.unwrap_or_else(|| place.to_string()), published, here }
    };
    publication.rows.iter().map(pair).collect()
}

fn here(pair: &Pair<'_>, quantity: Quantity) -> Option<f64> {
    median(&pair.here?.counted().into_iter().filter_map(|record| quantity.of(record)).collect::<Vec<_>>())
}

/// Of the first quantity, how this run compares.
fn sentence(publication: &Publication, pairs: &[Pair<'_>]) -> String {
    let Some(quantity) = publication.quantities.first() else { return String::new() };
    let ratios: Vec<f64> = pairs
        .iter()
        .filter_map(|pair| Some(here(pair, *quantity)? / pair.published.first().filter(|published| **published > 0.0)?))
        .collect();
    let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ratios.iter().copied().fold(0.0, f64::max);
    let times = match ratios.len() {
        0 => return "The run has none of the published figures.".to_owned(),
        1 => format!("{} times", number(high)),
        _ => format!("{} to {} times", number(low), number(high)),
    };
    format!(
        "Here, {times} the published {}, on another machine: the shape tells more than the height.",
        quantity.name()
    )
}

/// With two digits, small ratios with more.
fn number(ratio: f64) -> String {
    if ratio < 0.095 { format!("{ratio:.3}") } else { format!("{ratio:.2}") }
}

fn amount_of(quantity: Quantity, value: f64) -> String {
    if quantity.is_duration() { duration(value) } else { rate(value) }
}

fn table(publication: &Publication, pairs: &[Pair<'_>]) -> Table {
    let rows = pairs.iter().flat_map(|pair| {
        publication.quantities.iter().zip(pair.published).map(move |(quantity, published)| {
            let here = here(pair, *quantity);
            let figures = [
                amount_of(*quantity, *published),
                here.map_or("–".to_owned(), |here| amount_of(*quantity, here)),
                here.map_or("–".to_owned(), |here| number(here / published)),
            ];
            [pair.name.clone(), quantity.name().to_owned()].into_iter().chain(figures).collect::<Vec<_>>()
        })
    });
    let mut table = Table {
        heads: texts(&[publication.key, "figure", "published", "here", "here / published"]),
        rows: rows.collect(),
        ..Table::default()
    };
    // A column in which every cell is the same says nothing.
    let is_said = [!publication.key.is_empty(), publication.quantities.len() > 1];
    for column in [1, 0] {
        if !is_said[column] {
            table.heads.remove(column);
            table.rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
    table
}

fn chart(publication: &Publication, pairs: &[Pair<'_>], sentence: String) -> Figure {
    let quantity = publication.quantities[0];
    let published = |pair: &Pair<'_>| Spot {
        name: pair.name.clone(),
        trials: pair.published.first().map(|value| (*value, true)).into_iter().collect(),
        middle: pair.published.first().copied(),
        interval: None,
    };
    let ours = |pair: &Pair<'_>| match pair.here {
        Some(point) => point.spot(pair.name.clone(), &|record| quantity.of(record)),
        None => Spot { name: pair.name.clone(), trials: Vec::new(), middle: None, interval: None },
    };
    let (first, last) = (pairs[0].place, pairs[pairs.len() - 1].place);
    let dots = Dots {
        name: quantity.name().to_owned(),
        unit: if quantity.is_duration() { Unit::Nanoseconds } else { Unit::PerSecond },
        axis: publication.key.to_owned(),
        places: pairs.iter().map(|pair| (pair.place / first).ln() / (last / first).ln()).collect(),
        groups: vec![
            Group { name: "published".to_owned(), style: 6, spots: pairs.iter().map(published).collect() },
            Group { name: "here".to_owned(), style: 1, spots: pairs.iter().map(ours).collect() },
        ],
        is_connected: true,
        is_from_zero: true,
    };
    Figure::draw("published-figures", "Published and here", sentence, SHAPES, |shape| dots.draw(shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;
    use serde_json::json;

    fn record(scenario: &str, index: usize, values: &[(&str, Value)], per_second: f64) -> Record {
        let mut record = Record {
            scenario_name: scenario.to_owned(),
            point_index: index,
            point: values.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
            ..sample::record()
        };
        let completion = record.throughput.until_last_acknowledgement.as_mut().unwrap();
        completion.messages_per_second = per_second;
        record.throughput.messages_per_second = per_second;
        record
    }

    fn html(section: &Section) -> String {
        let html = |part: &Part| match part {
            Part::Html(html) => html.clone(),
            other => other.figures().iter().map(|figure| figure.html(3)).collect(),
        };
        section.parts.iter().map(html).collect()
    }

    #[test]
    fn a_reproduced_sweep_stands_beside_what_was_published() {
        let records: Vec<Record> = (0..3)
            .map(|index| record("pulsar-topics", index, &[("topology.topics", json!(1 << index))], 35_965.0))
            .collect();
        let found = html(&section(&records.iter().collect::<Vec<_>>()).unwrap());
        for part in [
            "<td>71,930</td><td>35,965</td><td>0.50</td>",
            "<td>1</td><td>71,930",
            "0.50 to 0.86 times",
            "<td>–</td><td>–</td>",
            ">published<",
        ] {
            assert!(found.contains(part), "{part} in {found}");
        }
    }

    #[test]
    fn a_point_of_a_sweep_that_was_not_swept_is_found_by_its_scenario() {
        let mut one = record("sls-total-size", 0, &[], 500_000.0);
        one.scenario["broker"]["sls"] = json!({"total_size": "200MiB"});
        one.client.cores_used = 2.0;
        let found = html(&section(&[&one]).unwrap());
        assert!(found.contains("<td>34.7</td><td>138</td><td>3.97</td>"), "{found}");
    }

    #[test]
    fn what_was_not_published_has_no_section_and_what_has_only_ratios_a_sentence() {
        assert!(section(&[&sample::record()]).is_none());
        let ratios = record("rabbitmq-single", 0, &[], 1.0);
        assert!(html(&section(&[&ratios]).unwrap()).contains("ratios only"));
    }
}
