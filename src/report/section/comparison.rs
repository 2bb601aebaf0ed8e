//! Two runs: what changed, what did not, and what is not certain.

use super::lead::{LIMIT, Lead, TRUST, Tone, Word, limiter, limits};
use super::reason_title::reason_title;
use super::tiles::Tile;
use super::{Part, Section, by_frequency, capital, latency, plain, several, texts, uncapital};
use crate::evaluate::comparison::{
    Comparison, Count, CountComparison, Design, Difference, FigureComparison, FigureKind, KeptTrial, Outcome,
    PointComparison, Verdict,
};
use crate::record::readable::{duration, percent, rate};
use crate::record::{Limiter, Record};
use crate::report::figure::{Figure, PHONE, Table, WIDE};
use crate::report::read::Run;
use crate::report::svg::escape;
use crate::report::svg::forest::{Forest, Ratio};

/// Rows of a forest plot.
const MAX_ROWS: usize = 24;

/// Differences that are named beside A and B, and the longest text of one, in letters.
const MAX_NAMED: usize = 2;
const MAX_NAMED_CHARACTERS: usize = 40;

/// What a comparison answers, where its runs can be trusted.
const WORSE: &str = "Is B worse than A?";

/// Figures that the sentence of one point tells, and those that have a tile.
const MAX_TOLD: usize = 3;
const MAX_TILES: usize = 5;

/// The head of the page.
pub fn lead(a: &Run, b: &Run, comparison: &Comparison) -> Lead {
    let figures: Vec<&FigureComparison> = comparison.points.iter().flat_map(|point| &point.figures).collect();
    let number = |outcome: Outcome| figures.iter().filter(|figure| figure.outcome == outcome).count();
    let is_untrusted = |point: &&PointComparison| point.trials_of_a.valid == 0 || point.trials_of_b.valid == 0;
    let untrusted = comparison.points.iter().filter(is_untrusted).count();
    let (tone, word) = match (comparison.verdict, comparison.regressions()) {
        (Verdict::Regression, worse) => (Tone::Bad, format!("Worse in {}", worse_figures(comparison, worse))),
        _ if untrusted > 0 && untrusted == comparison.points.len() => (Tone::Bad, "Not known".to_owned()),
        (Verdict::NotKnown, _) => (Tone::Bad, "Not known".to_owned()),
        (Verdict::NoRegressionFound, _) => (Tone::Good, "No regression found".to_owned()),
    };
    let numbers = format!(
        "{}: {} better, {} worse, {} no different within {}, {} not certain.",
        several(figures.len(), "figure"),
        number(Outcome::Better),
        number(Outcome::Worse),
        number(Outcome::NoDifferent),
        percent(comparison.tolerance),
        number(Outcome::CannotTell)
    );
    let evidence = match comparison.points.as_slice() {
        [point] if (1..=MAX_TOLD).contains(&point.figures.len()) => {
            capital(&listed(&point.figures.iter().collect::<Vec<_>>(), comparison.tolerance)) + "."
        }
        _ => numbers,
    };
    let evidence = worse_counts(comparison).chain([evidence]).collect::<Vec<_>>().join(" ");
    Lead {
        context: context(a, b, comparison),
        sentence: sentence(comparison),
        answers: vec![
            (WORSE, Word { tone, word, evidence }),
            (TRUST, trust(comparison, untrusted, &a.records(), &b.records())),
            (LIMIT, limit(&a.records(), &b.records())),
        ],
        tiles: comparison
            .points
            .first()
            .filter(|_| comparison.points.len() == 1)
            .map(|point| tiles(comparison, point))
            .unwrap_or_default(),
    }
}

/// How many trials of both sides are valid, and why the others are not. `untrusted`: points at which one side has none.
fn trust(comparison: &Comparison, untrusted: usize, of_a: &[&Record], of_b: &[&Record]) -> Word {
    let sum = |number: fn(&PointComparison) -> usize| comparison.points.iter().map(number).sum::<usize>();
    let (all_of_a, valid_of_a) = (sum(|point| point.trials_of_a.trials), sum(|point| point.trials_of_a.valid));
    let (all_of_b, valid_of_b) = (sum(|point| point.trials_of_b.trials), sum(|point| point.trials_of_b.valid));
    let (all, valid) = (all_of_a + all_of_b, valid_of_a + valid_of_b);
    let (tone, word) = match untrusted {
        _ if comparison.refusals().next().is_some() => (Tone::Bad, "The runs are not alike".to_owned()),
        points if points > 0 && points == comparison.points.len() => (Tone::Bad, "Not to be trusted".to_owned()),
        _ if valid == all => (Tone::Good, "Valid".to_owned()),
        _ => (Tone::Doubtful, format!("{valid} of {all} trials valid")),
    };
    let how = format!("Design: {}.", comparison.design_in_words());
    let only = if valid < all && valid > 0 { "; figures are only of these" } else { "" };
    let doubt = match untrusted {
        0 => String::new(),
        number => format!(" At {}, no trial of one side is valid.", several(number, "point")),
    };
    let why = first_reasons(of_a.iter().chain(of_b));
    let why = if why.is_empty() { why } else { format!("Against the others: {why}. ") };
    let evidence = format!(
        "Valid trials: {valid_of_a} of {all_of_a} of A, {valid_of_b} of {all_of_b} of B{only}. {why}{how}{doubt}"
    );
    Word { tone, word, evidence }
}

/// The first reason against each trial that is not valid: the most frequent ones, with the numbers of their trials.
fn first_reasons<'a>(records: impl Iterator<Item = &'a &'a Record>) -> String {
    let invalid = records.filter(|record| !record.verdict.valid);
    let found = by_frequency(invalid.filter_map(|record| Some(reason_title(record.verdict.reasons.first()?.kind))));
    let told = found.iter().take(MAX_NAMED).map(|(title, trials)| format!("{} ({trials})", uncapital(title)));
    told.collect::<Vec<_>>().join(", ")
}

/// What limited most trials of both sides.
fn limit(of_a: &[&Record], of_b: &[&Record]) -> Word {
    let (a, b) = (limits(of_a), limits(of_b));
    let is_same = a.word == b.word;
    let evidence = if is_same && a.word == limiter(Limiter::Schedule) {
        "Both sides carried the rate that was asked for: the most that they can carry was not measured.".to_owned()
    } else {
        format!("A: {} B: {}", a.evidence, b.evidence)
    };
    let word = if is_same { a.word } else { format!("A: {}; B: {}", a.word, b.word) };
    Word { tone: Tone::Plain, word, evidence }
}

/// The figures and counts that are worse, by their names where there is one point and they are few.
fn worse_figures(comparison: &Comparison, worse: usize) -> String {
    match comparison.points.as_slice() {
        [point] if worse <= MAX_NAMED => {
            let counts =
                point.counts.iter().filter(|count| count.regression).map(|count| format!("\"{}\"", count.count));
            let figures =
                point.figures.iter().filter(|figure| figure.regression).map(|figure| figure.figure.to_string());
            counts.chain(figures).collect::<Vec<_>>().join(" and ")
        }
        points => {
            let all: usize = points.iter().map(|point| point.counts.len() + point.figures.len()).sum();
            format!("{worse} of {}", several(all, "figure"))
        }
    }
}

/// What went wrong more often in B, a sentence each.
fn worse_counts(comparison: &Comparison) -> impl Iterator<Item = String> {
    let counts = comparison.points.iter().flat_map(|point| &point.counts).filter(|count| count.regression);
    counts.take(MAX_NAMED).map(|count| format!("{}: {}.", capital(&count.count.to_string()), both_sides(count)))
}

fn both_sides(count: &CountComparison) -> String {
    format!("{} in A, {} in B", side_count(count.a), side_count(count.b))
}

fn side_count(count: Option<Count>) -> String {
    count.map_or("–".to_owned(), |count| count.to_string())
}

/// Which runs these are, with what differs between them where that is short.
fn context(a: &Run, b: &Run, comparison: &Comparison) -> String {
    let named: Vec<&Difference> = short_differences(comparison).take(MAX_NAMED).collect();
    let side = |name: &str, value: fn(&Difference) -> &String| {
        let settings: Vec<String> =
            named.iter().map(|difference| format!("{} = {}", difference.what, value(difference))).collect();
        if settings.is_empty() { name.to_owned() } else { format!("{name}, {}", settings.join(", ")) }
    };
    format!("A: {} · B: {}", side(&a.name, |difference| &difference.a), side(&b.name, |difference| &difference.b))
}

fn short_differences(comparison: &Comparison) -> impl Iterator<Item = &Difference> {
    let is_short = |difference: &&Difference| {
        [&difference.what, &difference.a, &difference.b].iter().all(|text| text.chars().count() <= MAX_NAMED_CHARACTERS)
    };
    comparison.differences.iter().filter(is_short)
}

/// A and B, by the setting that differs if it is one.
fn sides(comparison: &Comparison) -> [String; 2] {
    let mut named = short_differences(comparison);
    match (named.next(), named.next()) {
        (Some(difference), None) => [format!("A ({})", difference.a), format!("B ({})", difference.b)],
        _ => ["A".to_owned(), "B".to_owned()],
    }
}

/// Which side is better and in what, or that none is.
fn sentence(comparison: &Comparison) -> String {
    if let Some(worse) = comparison.points.iter().flat_map(|point| &point.counts).find(|count| count.regression) {
        return format!("B is worse than A: {}, {}.", worse.count, both_sides(worse));
    }
    if let [point] = comparison.points.as_slice() {
        return sentence_of_point(comparison, point);
    }
    let worst = |figure: FigureKind| {
        let all = comparison.points.iter().flat_map(|point| &point.figures).filter(move |found| found.figure == figure);
        let ratios: Vec<f64> = all.map(|found| found.ratio).collect();
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(0.0, f64::max);
        (low, high)
    };
    let (low, high) = worst(FigureKind::MessagesPerSecond);
    format!(
        "B carried {low:.2} to {high:.2} times as many messages per second as A, over {}.",
        several(comparison.points.len(), "point")
    )
}

fn sentence_of_point(comparison: &Comparison, point: &PointComparison) -> String {
    let [a, b] = sides(comparison);
    let figures: Vec<&FigureComparison> = point.figures.iter().take(MAX_TOLD).collect();
    let is = |outcome: Outcome| move |figure: &&FigureComparison| figure.outcome == outcome;
    let (better, worse) = (figures.iter().any(is(Outcome::Better)), figures.iter().any(is(Outcome::Worse)));
    let is_changed = |figure: &&FigureComparison| matches!(figure.outcome, Outcome::Better | Outcome::Worse);
    let changed: Vec<&FigureComparison> = figures.iter().copied().filter(is_changed).collect();
    let told = listed(&changed, comparison.tolerance);
    match (better, worse) {
        (true, false) => format!("{b} is better than {a}: {told}."),
        (false, true) => format!("{b} is worse than {a}: {told}."),
        (true, true) => format!("{b} is better and worse than {a}: {told}."),
        (false, false) if figures.iter().all(is(Outcome::NoDifferent)) => {
            format!("{b} is no different from {a} within {}.", percent(comparison.tolerance))
        }
        (false, false) => format!("No difference of {b} from {a} is certain."),
    }
}

/// What became of each figure, in a line.
fn listed(figures: &[&FigureComparison], tolerance: f64) -> String {
    figures.iter().map(|figure| told(figure, tolerance)).collect::<Vec<_>>().join("; ")
}

fn told(figure: &FigureComparison, tolerance: f64) -> String {
    let change = percent((figure.ratio - 1.0).abs());
    let direction = if figure.ratio > 1.0 { "higher" } else { "lower" };
    match figure.outcome {
        Outcome::Better | Outcome::Worse => format!("{} {change} {direction}", figure.figure),
        Outcome::NoDifferent => format!("{} no different within {}", figure.figure, percent(tolerance)),
        Outcome::CannotTell => format!("{} not certain", figure.figure),
    }
}

fn amount(figure: &FigureComparison, value: f64) -> String {
    if figure.figure.larger_is_better() { rate(value) } else { duration(value) }
}

fn tiles(comparison: &Comparison, point: &PointComparison) -> Vec<Tile> {
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
    point.figures.iter().take(MAX_TILES).map(tile).collect()
}

pub fn sections(a: &Run, b: &Run, comparison: &Comparison) -> Vec<Section> {
    let mut ratios = vec![Part::figure(forest(comparison))];
    ratios.extend(tails(&a.trials, &b.trials, comparison).map(Part::figure));
    let table = table(comparison);
    let how = format!("Design: {}.", comparison.design_in_words());
    let left_out = if comparison.unmatched_points > 0 {
        format!(" {} of only one run are left out.", several(comparison.unmatched_points, "point"))
    } else {
        String::new()
    };
    let legend = "B / A: Hodges–Lehmann estimate with its 95 % interval; p by permutation, adjusted for all points (Holm). \
                  Changed: p under 0.05, and the whole interval beyond the middle half of A's own trials.";
    let figures = format!("<p>{how}{left_out}</p>{}<p class=\"note\">{}</p>", table.html(), escape(legend));
    [
        Section::of("ratios", "What changed", ratios),
        Section::of("figures", "The figures", vec![Part::Html(figures)]),
        Section::of("differences", "What else differs", vec![Part::Html(differences(comparison))]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn point_name(point: &PointComparison) -> String {
    point.point.iter().map(|(key, value)| format!("{key} = {}", plain(value))).collect::<Vec<_>>().join(", ")
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
    let forest = Forest { rows: all.take(MAX_ROWS).map(|(point, figure)| row(point, figure)).collect() };
    let changed = comparison
        .points
        .iter()
        .flat_map(|point| &point.figures)
        .filter(|figure| matches!(figure.outcome, Outcome::Better | Outcome::Worse));
    let far = changed.max_by(|one, other| one.ratio.ln().abs().total_cmp(&other.ratio.ln().abs()));
    let sentence = match far {
        Some(figure) => {
            format!("The largest change is that of {}: {}.", figure.figure, figure.conclusion(comparison.tolerance))
        }
        None => "No interval lies wholly beyond the band in which A's own trials lie, so no figure changed for sure."
            .to_owned(),
    };
    let shapes = (forest.shape(WIDE.width), forest.shape(PHONE.width));
    Figure::draw("ratios-of-figures", "B / A, with 95 % intervals; grey: A's own spread", sentence, shapes, |shape| {
        forest.draw(shape)
    })
}

/// The percentiles of both sides, where there is a single point.
fn tails(a: &[KeptTrial], b: &[KeptTrial], comparison: &Comparison) -> Option<Figure> {
    if comparison.points.len() != 1 {
        return None;
    }
    let records = |trials: &'_ [KeptTrial]| -> Vec<Record> {
        let valid: Vec<Record> =
            trials.iter().filter(|trial| trial.record.verdict.valid).map(|trial| trial.record.clone()).collect();
        if valid.is_empty() { trials.iter().map(|trial| trial.record.clone()).collect() } else { valid }
    };
    let curve = |name: &str, style, trials: &[KeptTrial]| {
        latency::merged(name, style, &records(trials).iter().collect::<Vec<_>>())
    };
    let (a, b) = (curve("A", 6, a)?, curve("B", 1, b)?);
    let sentence = format!(
        "Of the messages of all trials together, half took {} or less in A and {} in B, 99 of 100 {} and {}. A single bad trial shows here, and weighs less in the ratios above.",
        duration(a.at(0.5)),
        duration(b.at(0.5)),
        duration(a.at(0.99)),
        duration(b.at(0.99))
    );
    Some(latency::figure("latency-by-percentile", "Latency by percentile", sentence, vec![a, b]))
}

fn table(comparison: &Comparison) -> Table {
    let rows = comparison.points.iter().flat_map(|point| {
        let counts = point.counts.iter().map(move |count| {
            let (a, b, p) = (side_count(count.a), side_count(count.b), format!("{:.4}", count.adjusted_p));
            let (name, blank) = (count.count.to_string(), || "–".to_owned());
            vec![point_name(point), name, a, b, blank(), blank(), p, count.conclusion()]
        });
        let missing = point.missing_figures.iter().map(move |missing| {
            let mut row = vec![point_name(point), missing.figure.to_string()];
            row.extend(std::iter::repeat_n("–".to_owned(), 5));
            row.push(format!("not compared: {}", missing.reason));
            row
        });
        let figures = point.figures.iter().map(move |figure| {
            let interval = match (figure.ratio_low, figure.ratio_high) {
                (Some(low), Some(high)) => format!("{low:.3} … {high:.3}"),
                _ => "–".to_owned(),
            };
            vec![
                point_name(point),
                figure.figure.to_string(),
                format!("median {} ({})", amount(figure, figure.a.median), several(figure.a.trials, "trial")),
                format!("median {} ({})", amount(figure, figure.b.median), several(figure.b.trials, "trial")),
                format!("{:.3}", figure.ratio),
                interval,
                format!("{:.4}", figure.adjusted_p),
                figure.conclusion(comparison.tolerance),
            ]
        });
        counts.chain(figures).chain(missing).collect::<Vec<_>>()
    });
    let heads = texts(&["point", "figure", "A", "B", "B / A", "95 % interval", "p", "conclusion"]);
    Table { heads, rows: rows.take(400).collect(), ..Table::default() }
}

fn differences(comparison: &Comparison) -> String {
    if comparison.differences.is_empty() {
        return "<p>Nothing else differs that the records know of.</p>".to_owned();
    }
    let row = |difference: &Difference| {
        let mark = if difference.refused { "✗ " } else { "" };
        vec![format!("{mark}{}", difference.what), difference.a.clone(), difference.b.clone()]
    };
    let refused = comparison.refusals().next().map(|_| "A cross: figures that differ in this cannot be compared; `compare` refuses them unless --unequal is given.");
    Table {
        note: refused.unwrap_or_default().to_owned(),
        heads: texts(&["what", "A", "B"]),
        rows: comparison.differences.iter().map(row).collect(),
    }
    .html()
}
