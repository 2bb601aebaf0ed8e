//! Two runs: their ratios and percentiles as charts, and the figures of each point.

use super::{Block, Section, latency};
use crate::evaluate::comparison::{Comparison, FigureComparison, FigureKind, KeptTrial, Outcome, PointComparison};
use crate::present::comparison::{counts, differences, figures_table, legend, missing, point_heading, point_name};
use crate::record::readable::duration;
use crate::record::{Record, Status};
use crate::report::figure::{Figure, PHONE, WIDE};
use crate::report::svg::bars::{Forest, Ratio};
use crate::report::{Run, html};

/// Rows of a forest plot.
const MAX_ROWS: usize = 24;

pub fn sections(a: &Run, b: &Run, comparison: &Comparison) -> Vec<Section> {
    let mut ratios = vec![Block::figure(forest(comparison))];
    ratios.extend(tails(&a.trials, &b.trials, comparison).map(Block::figure));
    let point = |point: &PointComparison| {
        format!(
            "<h3>{}</h3>{}{}{}",
            crate::report::svg::escape(&point_heading(point)),
            html::findings(&counts(point)),
            html::table(&figures_table(point, comparison.tolerance)),
            html::facts(&missing(point))
        )
    };
    let points: String = comparison.points.iter().map(point).collect();
    let legend: String = legend(comparison).iter().map(|text| html::note(text)).collect();
    let differences = match comparison.differences.as_slice() {
        [] => html::paragraph("Nothing else differs that the records know of."),
        _ => html::findings(&differences(comparison)),
    };
    [
        Section::new("ratios", "What changed", ratios),
        Section::text("figures", "The figures", points + &legend),
        Section::text("differences", "What else differs", differences),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Of several points only the rate and the 99th percentiles.
fn forest(comparison: &Comparison) -> Figure {
    let alone = comparison.points.len() == 1;
    let is_shown = |figure: &FigureComparison| {
        alone
            || matches!(figure.figure, FigureKind::MessagesPerSecond | FigureKind::ResponseP99 | FigureKind::ServiceP99)
    };
    let row = |point: &PointComparison, figure: &FigureComparison| Ratio {
        name: if alone { figure.figure.to_string() } else { format!("{}: {}", point_name(point), figure.figure) },
        ratio: figure.ratio,
        interval: figure.ratio_low.zip(figure.ratio_high),
        band: figure.band,
        text: match figure.outcome {
            Outcome::Better => "better".to_owned(),
            Outcome::Worse => "worse".to_owned(),
            Outcome::NoDifferent => "no different".to_owned(),
            Outcome::CannotTell => "not certain".to_owned(),
        },
        style: match figure.outcome {
            Outcome::Better => 2,
            Outcome::Worse => 3,
            _ => 1,
        },
    };
    let all = comparison
        .points
        .iter()
        .flat_map(|point| point.figures.iter().filter(|figure| is_shown(figure)).map(move |figure| (point, figure)));
    let mut rows: Vec<Ratio> = all.map(|(point, figure)| row(point, figure)).collect();
    let ratios = rows.len();
    rows.truncate(MAX_ROWS);
    let forest = Forest { rows };
    let changed = comparison
        .points
        .iter()
        .flat_map(|point| &point.figures)
        .filter(|figure| matches!(figure.outcome, Outcome::Better | Outcome::Worse));
    let far = changed.max_by(|one, other| one.ratio.ln().abs().total_cmp(&other.ratio.ln().abs()));
    let mut sentence = match far {
        Some(figure) => {
            format!("The largest change is that of {}: {}.", figure.figure, figure.conclusion(comparison.tolerance))
        }
        // An interval may lie beyond the band, and chance explain it all the same: among several points, or in few pairs.
        None => "No figure changed for sure: its whole interval would lie beyond the band in which A's own trials lie, and chance would explain it in \
                 less than 1 case of 20."
            .to_owned(),
    };
    if ratios > MAX_ROWS {
        sentence += &format!(" Shown are the first {MAX_ROWS} of {ratios} ratios; the figures below have them all.");
    }
    let shapes = (forest.shape(WIDE.width), forest.shape(PHONE.width));
    Figure::draw("ratios-of-figures", "B / A, with 95 % intervals; grey: A's own spread", sentence, shapes, |shape| {
        forest.draw(shape)
    })
}

/// The percentiles of both sides, where there is a single point.
fn tails(a: &[KeptTrial], b: &[KeptTrial], comparison: &Comparison) -> Option<Figure> {
    let [point] = comparison.points.as_slice() else { return None };
    let curve =
        |name: &str, style, trials: &[KeptTrial]| latency::merged(name, style, &records_of_point(trials, point));
    let (a, b) = (curve("A", 6, a)?, curve("B", 1, b)?);
    let sentence = if a.supports(0.99) && b.supports(0.99) {
        format!(
            "Of the messages of all trials together, half took {} or less in A and {} in B, 99 of 100 {} and {}. A single bad trial shows here, and weighs less in the ratios above.",
            duration(a.at(0.5)),
            duration(b.at(0.5)),
            duration(a.at(0.99)),
            duration(b.at(0.99))
        )
    } else {
        "Too few independent messages were measured to state the 99th percentile of both sides.".to_owned()
    };
    Some(latency::figure("latency-by-percentile", "Latency by percentile", sentence, vec![a, b]))
}

/// A side's trials of the point: the valid ones; without any, all completed ones. Its sweep may have points that the other side lacks.
fn records_of_point<'a>(trials: &'a [KeptTrial], point: &PointComparison) -> Vec<&'a Record> {
    let mut found: Vec<&Record> =
        trials.iter().map(|trial| &trial.record).filter(|record| record.status == Status::Completed).collect();
    // Of sides with one point each, the values may differ.
    if found.iter().any(|record| record.point == point.point) {
        found.retain(|record| record.point == point.point);
    }
    if found.iter().any(|record| record.verdict.valid) {
        found.retain(|record| record.verdict.valid);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::comparison::{Bounds, compare};
    use crate::record::{Latency, sample};

    #[test]
    fn an_interval_beyond_the_band_that_chance_explains_is_not_denied() {
        // Six pairs in turn at each of two points: chance makes such a change at one of them in 2 of 64 cases, at any of both in 4.
        let side = |factor: f64, second: i64| -> Vec<KeptTrial> {
            let trial = |number: u32| {
                let mut record = Record { trial: number, point_index: number as usize % 2, ..sample::record() };
                record.point.insert("producers.count".to_owned(), record.point_index.into());
                record.throughput.messages_per_second *= factor;
                let begun = jiff::SignedDuration::from_secs(100 * i64::from(number) + second);
                record.started_at = record.started_at.checked_add(begun).unwrap();
                KeptTrial { record, series: Vec::new() }
            };
            (1..=12).map(trial).collect()
        };
        let comparison = compare(&side(1.0, 0), &side(0.9, 50), Bounds::default()).unwrap();
        let found = &comparison.points[0].figures[0];
        assert!(found.ratio_high.unwrap() < 1.0 && found.band < 1e-9, "{found:?}");
        assert_eq!(found.outcome, Outcome::CannotTell);
        assert!(forest(&comparison).sentence.starts_with("No figure changed for sure: "));
    }

    #[test]
    fn ratios_that_are_not_drawn_are_counted() {
        let trial = |point_index: usize| {
            let mut record = Record { point_index, ..sample::record() };
            record.point.insert("producers.count".to_owned(), point_index.into());
            KeptTrial { record, series: Vec::new() }
        };
        let shown = |points: usize| {
            let side: Vec<KeptTrial> = (0..points).map(trial).collect();
            forest(&compare(&side, &side, Bounds::default()).unwrap()).sentence
        };
        assert!(shown(13).ends_with(" Shown are the first 24 of 26 ratios; the figures below have them all."));
        assert!(!shown(12).contains("Shown"), "{}", shown(12));
    }

    #[test]
    fn percentiles_are_of_the_point_that_both_sides_have() {
        let trial = |producers: u64, slow: u64| {
            let mut record = Record { point_index: usize::from(slow > 0), ..sample::record() };
            record.point.insert("producers.count".to_owned(), producers.into());
            let mut histogram = record.latency.response.as_ref().unwrap().decode_histogram().unwrap();
            histogram.record_n(20_000_000, slow).unwrap();
            record.latency.response = Latency::from_histogram(&histogram, 0, None);
            KeptTrial { record, series: Vec::new() }
        };
        let (sweep, one) = ([trial(1, 0), trial(8, 10_000_000)], [trial(1, 0)]);
        let told = |a: &[KeptTrial]| tails(a, &one, &compare(a, &one, Bounds::default()).unwrap()).unwrap().sentence;
        assert_eq!(told(&sweep), told(&one));
    }

    #[test]
    fn a_percentile_of_both_sides_is_told_where_it_can_be_stated() {
        for (independent, told) in [(999, "Too few independent messages"), (1_000, "Of the messages of all trials")] {
            let mut record = sample::record();
            record.latency.response.as_mut().unwrap().independent = Some(independent);
            let side = [KeptTrial { record, series: Vec::new() }];
            let comparison = compare(&side, &side, Bounds::default()).unwrap();
            let figure = tails(&side, &side, &comparison).unwrap();
            assert!(figure.sentence.starts_with(told), "{}", figure.sentence);
        }
    }
}
