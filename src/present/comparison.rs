//! Two runs: what changed, what did not, and what is not certain.

use super::setup::ran;
use super::verdict::{limit_of_all, limiter_name, reason_title};
use super::{
    Align, Answer, Column, Fact, Finding, LIMIT, Summary, TRUST, Table, Tone, by_frequency, capital, several, uncapital,
};
use crate::evaluate::comparison::{
    Centre, Comparison, Count, CountComparison, Design, Difference, FigureComparison, FigureKind, Outcome,
    PointComparison, Verdict,
};
use crate::record::readable::{duration, percent, rate};
use crate::record::{Limiter, Record};
use crate::statistics::extent;

/// Differences that are named beside A and B, and the longest text of one, in letters.
const MAX_NAMED: usize = 2;
const MAX_NAMED_CHARACTERS: usize = 40;

/// Figures that the sentence of one point tells: the first ones, and as many that changed.
const MAX_TOLD: usize = 3;

/// The sentence where no figure is comparable.
const NO_FIGURE: &str = "No figure of B can be compared with A.";

/// What a comparison answers, where its runs can be trusted.
const WORSE: &str = "Is B worse than A?";

/// One of the two runs.
pub struct Side<'a> {
    pub name: &'a str,
    pub records: Vec<&'a Record>,
}

pub fn summary(a: &Side<'_>, b: &Side<'_>, comparison: &Comparison) -> Summary {
    let untrusted = comparison.points.iter().filter(|point| comparison.is_untrusted(point)).count();
    Summary {
        name: format!("A: {}", side(a.name, comparison, |difference| &difference.a)),
        context: vec![format!("B: {}", side(b.name, comparison, |difference| &difference.b))],
        ran: ran(&[a.records.as_slice(), &b.records].concat()),
        sentence: sentence(comparison),
        answers: match comparison.unknown {
            Some(unknown) => vec![worse(comparison, untrusted), not_known(comparison, unknown)],
            None => vec![worse(comparison, untrusted), trust(comparison, untrusted, a, b), limit(a, b)],
        },
    }
}

/// Whether files of another tool can be trusted.
fn not_known(comparison: &Comparison, unknown: &str) -> Answer {
    let evidence = format!("{}. Design: {}.", capital(unknown), comparison.design_in_words());
    Answer { question: TRUST, tone: Tone::Doubtful, word: "Not known".to_owned(), evidence }
}

/// Whether B is worse, and in what.
fn worse(comparison: &Comparison, untrusted: usize) -> Answer {
    let figures: Vec<&FigureComparison> = comparison.points.iter().flat_map(|point| &point.figures).collect();
    let number = |outcome: Outcome| figures.iter().filter(|figure| figure.outcome == outcome).count();
    let (tone, word) = match (comparison.verdict, comparison.regressions()) {
        (Verdict::Regression, worse) => (Tone::Bad, format!("Worse in {}", worse_figures(comparison, worse))),
        _ if untrusted > 0 && untrusted == comparison.points.len() => (Tone::Bad, "Not known".to_owned()),
        (Verdict::NotKnown, _) => (Tone::Bad, "Not known".to_owned()),
        // The headline may tell of a change within it.
        (Verdict::NoRegressionFound, _) if number(Outcome::Worse) > 0 => {
            (Tone::Good, format!("No regression beyond {}", percent(comparison.tolerance)))
        }
        (Verdict::NoRegressionFound, _) => (Tone::Good, "No regression found".to_owned()),
    };
    let evidence = format!(
        "{}: {} better, {} worse, {} no different within {}, {} not certain.",
        several(figures.len(), "figure"),
        number(Outcome::Better),
        number(Outcome::Worse),
        number(Outcome::NoDifferent),
        percent(comparison.tolerance),
        number(Outcome::CannotTell)
    );
    // What went wrong more often in B, a sentence each.
    let counts = comparison.points.iter().flat_map(|point| &point.counts).filter(|count| count.regression);
    let counts =
        counts.take(MAX_NAMED).map(|count| format!("{}: {}.", capital(&count.count.to_string()), both_sides(count)));
    let evidence = counts.chain([evidence]).collect::<Vec<_>>().join(" ");
    Answer { question: WORSE, tone, word, evidence }
}

/// How many trials of both sides are valid, and why the others are not. `untrusted`: points at which one side has none.
fn trust(comparison: &Comparison, untrusted: usize, a: &Side<'_>, b: &Side<'_>) -> Answer {
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
    let only = match comparison.design {
        _ if valid == 0 || valid == all => "",
        Design::InTurn => "; figures are only of pairs of valid ones",
        Design::SeveralRuns | Design::SingleRuns => "; figures are only of these",
    };
    let doubt = match untrusted {
        0 => String::new(),
        number => format!(" At {}, no trial of one side is valid.", several(number, "point")),
    };
    let left_out = match comparison.unmatched_points {
        0 => String::new(),
        number => format!(" {} of only one run are left out.", several(number, "point")),
    };
    let why = first_reasons(a.records.iter().chain(&b.records));
    let why = if why.is_empty() { why } else { format!("Against the others: {why}. ") };
    let evidence = format!(
        "Valid trials: {valid_of_a} of {all_of_a} of A, {valid_of_b} of {all_of_b} of B{only}. {why}{how}{doubt}{left_out}"
    );
    Answer { question: TRUST, tone, word, evidence }
}

/// The first reason against each trial that is not valid: the most frequent ones, with the numbers of their trials.
fn first_reasons<'a>(records: impl Iterator<Item = &'a &'a Record>) -> String {
    let invalid = records.filter(|record| !record.verdict.valid);
    let found = by_frequency(invalid.filter_map(|record| Some(reason_title(record.verdict.reasons.first()?.kind))));
    let told = found.iter().take(MAX_NAMED).map(|(title, trials)| format!("{} ({trials})", uncapital(title)));
    told.collect::<Vec<_>>().join(", ")
}

/// What limited most trials of both sides.
fn limit(a: &Side<'_>, b: &Side<'_>) -> Answer {
    let (a, b) = (limit_of_all(&a.records), limit_of_all(&b.records));
    let is_same = a.word == b.word;
    let evidence = if is_same && a.word == limiter_name(Limiter::Schedule) {
        "Both sides carried the rate that was asked for: the most that they can carry was not measured.".to_owned()
    } else {
        format!("A: {} B: {}", a.evidence, b.evidence)
    };
    let word = if is_same { a.word } else { format!("A: {}; B: {}", a.word, b.word) };
    Answer { question: LIMIT, tone: Tone::Plain, word, evidence }
}

/// The figures and counts that are worse, by their names where there is one point and they are few.
fn worse_figures(comparison: &Comparison, worse: usize) -> String {
    match comparison.points.as_slice() {
        [point] if worse <= MAX_NAMED => {
            let counts =
                point.counts.iter().filter(|count| count.regression).map(|count| format!("\"{}\"", count.count));
            let figures = point.worse_figures().map(|figure| figure.figure.to_string());
            counts.chain(figures).collect::<Vec<_>>().join(" and ")
        }
        points => {
            let all: usize = points.iter().map(|point| point.counts.len() + point.figures.len()).sum();
            format!("{worse} of {}", several(all, "figure"))
        }
    }
}

pub fn both_sides(count: &CountComparison) -> String {
    let side = |count: Option<Count>| count.map_or("–".to_owned(), |count| count.to_string());
    format!("{} in A, {} in B", side(count.a), side(count.b))
}

/// The name of a run, with what differs between both where that is short.
fn side(name: &str, comparison: &Comparison, value: fn(&Difference) -> &String) -> String {
    let named = short_differences(comparison).take(MAX_NAMED);
    let settings = named.map(|difference| format!("{} = {}", difference.what, value(difference)));
    std::iter::once(name.to_owned()).chain(settings).collect::<Vec<_>>().join(", ")
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

/// What went wrong more often in B, or what changed.
fn sentence(comparison: &Comparison) -> String {
    if let Some(worse) = comparison.points.iter().flat_map(|point| &point.counts).find(|count| count.regression) {
        return format!("B is worse than A: {}, {}.", worse.count, both_sides(worse));
    }
    if let [point] = comparison.points.as_slice() {
        return sentence_of_point(comparison, point);
    }
    let (left_out, trusted): (Vec<&PointComparison>, Vec<&PointComparison>) =
        comparison.points.iter().partition(|point| comparison.is_untrusted(point));
    let all = trusted.into_iter().flat_map(|point| &point.figures);
    let ratios = all.filter(|found| found.figure == FigureKind::MessagesPerSecond).map(|found| found.ratio);
    let ratios: Vec<f64> = ratios.collect();
    if ratios.is_empty() {
        return NO_FIGURE.to_owned();
    }
    let (low, high) = extent(ratios.iter().copied());
    let left_out = match left_out.len() {
        0 => String::new(),
        number => format!("; at {}, no trial of one side is valid", several(number, "point")),
    };
    format!(
        "B carried {low:.2} to {high:.2} times as many messages per second as A, over {}{left_out}.",
        several(ratios.len(), "point")
    )
}

/// What changed with its interval, then what is not known of the other ones of the first figures: "B has 4.4 % higher response p50 than A (1.6
/// to 6.9 %); response p99: cannot tell, 99 more trials a side would suffice."
fn sentence_of_point(comparison: &Comparison, point: &PointComparison) -> String {
    let [a, b] = sides(comparison);
    if comparison.is_untrusted(point) {
        let side = match (point.trials_of_a.valid, point.trials_of_b.valid) {
            (0, 0) => "either side",
            (0, _) => &a,
            _ => &b,
        };
        return format!("B cannot be compared with A: no trial of {side} is valid.");
    }
    if point.figures.is_empty() {
        return NO_FIGURE.to_owned();
    }
    let is_change = |figure: &&FigureComparison| matches!(figure.outcome, Outcome::Better | Outcome::Worse);
    let mut changed: Vec<&FigureComparison> = point.figures.iter().filter(is_change).collect();
    // A regression is told, whichever figure it is of.
    changed.sort_by_key(|figure| !figure.regression);
    let changes: Vec<String> = changed.iter().take(MAX_TOLD).map(|figure| change(figure)).collect();
    let others = point.figures.iter().take(MAX_TOLD).filter(|figure| !is_change(figure));
    let lead = match changes.as_slice() {
        [] if point.figures.iter().all(|figure| figure.outcome == Outcome::NoDifferent) => {
            let missing: Vec<String> = point.missing_figures.iter().map(|one| one.figure.to_string()).collect();
            let but =
                if missing.is_empty() { String::new() } else { format!("; not compared: {}", missing.join(", ")) };
            return format!("{b} does not differ from {a} within {}{but}.", percent(comparison.tolerance));
        }
        [] => format!("No difference of {b} from {a} is certain"),
        changes => format!("{b} has {} than {a}", changes.join(" and ")),
    };
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for figure in others {
        let conclusion = figure.conclusion(comparison.tolerance);
        match told.iter_mut().find(|(text, _)| *text == conclusion) {
            Some((_, names)) => names.push(figure.figure.to_string()),
            None => told.push((conclusion, vec![figure.figure.to_string()])),
        }
    }
    let told = told.into_iter().map(|(text, names)| format!("{}: {text}", names.join(" and ")));
    std::iter::once(lead).chain(told).collect::<Vec<_>>().join("; ") + "."
}

/// "4.4 % (1.6 to 6.9 %) higher response p50".
fn change(figure: &FigureComparison) -> String {
    let share = |ratio: f64| percent((ratio - 1.0).abs());
    let interval = figure.ratio_low.zip(figure.ratio_high).map(|(low, high)| {
        let (least, most) = if figure.ratio > 1.0 { (low, high) } else { (high, low) };
        format!(" ({} to {})", share(least).trim_end_matches(" %"), share(most))
    });
    let direction = match (figure.ratio > 1.0, figure.figure.larger_is_better()) {
        (true, true) => "more",
        (false, true) => "fewer",
        (true, false) => "higher",
        (false, false) => "lower",
    };
    format!("{}{} {direction} {}", share(figure.ratio), interval.unwrap_or_default(), figure.figure)
}

/// A value of a figure, as people read it.
pub fn amount(figure: &FigureComparison, value: f64) -> String {
    if figure.figure.larger_is_better() { rate(value) } else { duration(value) }
}

/// What differs beside the figures. A cross marks what forbids a comparison.
pub fn differences(comparison: &Comparison) -> Vec<Finding> {
    let finding = |difference: &Difference| Finding {
        tone: if difference.refused { Tone::Bad } else { Tone::Plain },
        title: difference.what.clone(),
        evidence: format!("differs: {} in A, {} in B", difference.a, difference.b),
        advice: if difference.refused { "Compare with --unequal nevertheless.".to_owned() } else { String::new() },
        ..Finding::default()
    };
    comparison.differences.iter().map(finding).collect()
}

/// The values of a compared point.
pub fn point_name(point: &PointComparison) -> String {
    super::point(&point.point)
}

/// The trials of a point.
pub fn point_heading(point: &PointComparison) -> String {
    let name = point_name(point);
    let name = if name.is_empty() { name } else { format!("{name} · ") };
    format!("{name}trials: {} of A, {} of B", point.trials_of_a, point.trials_of_b)
}

/// What went wrong on at least one side of a point.
pub fn counts(point: &PointComparison) -> Vec<Finding> {
    let finding = |tone, title: String, evidence: String| Finding { tone, title, evidence, ..Finding::default() };
    let mut found = Vec::new();
    let sides = [("A", &point.trials_of_a), ("B", &point.trials_of_b)];
    let invalid = sides.into_iter().filter(|(_, trials)| trials.valid == 0 && trials.completed > 0);
    found.extend(invalid.map(|(side, _)| {
        finding(Tone::Bad, format!("No trial of {side} is valid"), "Its figures are not to be trusted.".to_owned())
    }));
    for count in point.counts.iter().filter(|count| count.is_telling()) {
        let tone = match count.outcome {
            Outcome::Worse => Tone::Bad,
            Outcome::Better => Tone::Good,
            Outcome::CannotTell => Tone::Doubtful,
            Outcome::NoDifferent => Tone::Plain,
        };
        found.push(finding(tone, count.count.to_string(), format!("{}: {}", both_sides(count), count.conclusion())));
    }
    found
}

/// Counts that are 0 on both sides, and figures that cannot be compared.
pub fn missing(point: &PointComparison) -> Vec<Fact> {
    let none = point.counts.iter().filter(|count| !count.is_telling()).map(|count| count.count.to_string());
    let missing = point.missing_figures.iter().map(|missing| format!("{}: {}", missing.figure, missing.reason));
    super::known([
        Fact::new("none", none.collect::<Vec<_>>().join(", ")),
        Fact::list("not compared", missing.collect()),
    ])
}

/// The figures of a point on both sides.
pub fn figures_table(point: &PointComparison, tolerance: f64) -> Table {
    let figures = &point.figures;
    let column = |title: &str, rank, cell: &dyn Fn(&FigureComparison) -> String| {
        Column::new(title, Align::Right, rank, figures.iter().map(cell))
    };
    let interval = |figure: &FigureComparison, centre: &Centre| match (centre.low, centre.high) {
        (Some(low), Some(high)) => format!("{} … {}", amount(figure, low), amount(figure, high)),
        _ => "–".to_owned(),
    };
    let ratio_interval = |figure: &FigureComparison| match (figure.ratio_low, figure.ratio_high) {
        (Some(low), Some(high)) => format!("{low:.3} … {high:.3}"),
        _ => "–".to_owned(),
    };
    let tone = |figure: &FigureComparison| match figure.outcome {
        Outcome::Worse if figure.regression => Tone::Bad,
        Outcome::Worse | Outcome::CannotTell => Tone::Doubtful,
        Outcome::Better => Tone::Good,
        Outcome::NoDifferent => Tone::Plain,
    };
    let conclusions = figures.iter().map(|figure| (tone(figure), figure.conclusion(tolerance)));
    let columns = vec![
        Column::new("figure", Align::Left, Column::KEEP, figures.iter().map(|figure| figure.figure.to_string())),
        column("trials", 0, &|figure| format!("{} + {}", figure.a.trials, figure.b.trials)),
        column("median of A", 5, &|figure| amount(figure, figure.a.median)),
        column("of B", 5, &|figure| amount(figure, figure.b.median)),
        column("A's interval", 1, &|figure| interval(figure, &figure.a)),
        column("B's interval", 1, &|figure| interval(figure, &figure.b)),
        column("B / A", Column::KEEP, &|figure| format!("{:.3}", figure.ratio)),
        column("95 % interval", 8, &ratio_interval),
        Column::toned("conclusion", Align::Left, Column::KEEP, conclusions),
    ];
    Table { columns, ..Table::default() }
}

/// How the figures were compared.
pub fn legend(comparison: &Comparison) -> Vec<String> {
    let mut legend = vec![
        "B / A: Hodges–Lehmann estimate of the ratio with its interval. Changed: chance explains it in less than 1 case of 20 (by \
         permutation, adjusted for all points), and the whole interval lies beyond the middle half of A's own trials."
            .to_owned(),
    ];
    if comparison.least_change.is_some() {
        legend.push(
            "The intervals and p contain what runs differ by (--between-runs). To find smaller changes, let the sides take turns \
             (`run --against`), or give each side four runs or more."
                .to_owned(),
        );
    }
    let figures = comparison.points.iter().flat_map(|point| &point.figures);
    let seconds_within =
        |centre: fn(&FigureComparison) -> &Centre| figures.clone().find_map(|figure| centre(figure).effective_seconds);
    for (side, seconds) in [("A", seconds_within(|figure| &figure.a)), ("B", seconds_within(|figure| &figure.b))] {
        if let Some(seconds) = seconds {
            legend.push(format!(
                "{side} has a single trial: its interval is from within it (its seconds are worth {seconds:.0} independent ones) and does not contain what differs between trials."
            ));
        }
    }
    legend
}
