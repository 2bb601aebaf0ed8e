//! A comparison as text.

use crate::cli::show::View;
use crate::cli::show::page::{Page, Tone};
use crate::cli::show::table::{self, Align, Column};
use crate::evaluate::comparison::{Centre, Comparison, FigureComparison, Outcome, PointComparison};
use crate::record::readable::{duration, rate};

pub(super) fn page(comparison: &Comparison, view: View) -> String {
    Page::of(view, |page| {
        heading(page, comparison);
        for difference in &comparison.differences {
            let (lead, tone) =
                if difference.refused { ("✗ differs  ", Tone::Bad) } else { ("differs    ", Tone::Doubtful) };
            page.led(lead, tone, &format!("{}: {} in A, {} in B", difference.what, difference.a, difference.b));
        }
        for point in &comparison.points {
            page.blank();
            self::point(page, point, comparison.tolerance);
        }
        page.blank();
        legend(page, comparison);
    })
}

fn heading(page: &mut Page, comparison: &Comparison) {
    let regressions =
        comparison.points.iter().flat_map(|point| &point.figures).filter(|figure| figure.regression).count();
    let verdict = match regressions {
        0 => page.paint(Tone::Good, "no regression found"),
        1 => page.paint(Tone::Bad, "1 regression"),
        several => page.paint(Tone::Bad, &format!("{several} regressions")),
    };
    let points = match comparison.points.len() {
        1 => "1 point".to_owned(),
        several => format!("{several} points"),
    };
    let design = if comparison.paired { "trials in turn, compared in pairs" } else { "trials of each run by itself" };
    page.line(&format!("{verdict} · {points} · {design}"));
    if comparison.unmatched_points > 0 {
        page.led(
            "differs    ",
            Tone::Doubtful,
            &format!("{} point(s) of only one set are left out", comparison.unmatched_points),
        );
    }
}

fn point(page: &mut Page, point: &PointComparison, tolerance: f64) {
    let values: Vec<String> = point.point.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let trials = |all: usize, valid: usize| match all - valid {
        0 => format!("{all}"),
        not_valid => format!("{all} ({not_valid} not valid)"),
    };
    let (a, b) = (trials(point.trials_of_a, point.valid_of_a), trials(point.trials_of_b, point.valid_of_b));
    let named = if values.is_empty() { String::new() } else { format!("{} · ", values.join(", ")) };
    page.line(&format!("{named}trials: {a} of A, {b} of B"));
    if point.valid_of_a == 0 || point.valid_of_b == 0 {
        page.led("✗ ", Tone::Bad, "No trial of one side is valid: its figures are not to be trusted.");
    }
    let figures = &point.figures;
    let column = |title: &str, rank, cell: &dyn Fn(&FigureComparison) -> String| {
        Column::new(title, Align::Right, rank, figures.iter().map(cell))
    };
    let conclusions = figures.iter().map(|figure| (tone(figure), figure.conclusion(tolerance))).collect();
    let columns = vec![
        Column::new("figure", Align::Left, Column::KEEP, figures.iter().map(|figure| figure.figure.to_string())),
        column("median of A", 5, &|figure| amount(figure, figure.a.median)),
        column("of B", 5, &|figure| amount(figure, figure.b.median)),
        column("A's interval", 1, &|figure| interval(figure, &figure.a)),
        column("B's interval", 1, &|figure| interval(figure, &figure.b)),
        column("B / A", Column::KEEP, &|figure| format!("{:.3}", figure.ratio)),
        column("95 % interval", 8, &ratio_interval),
        column("p", 3, &|figure| format!("{:.4}", figure.adjusted_p)),
        Column { title: "conclusion".to_owned(), cells: conclusions, align: Align::Left, rank: Column::KEEP },
    ];
    table::print(page, columns);
}

fn tone(figure: &FigureComparison) -> Tone {
    match figure.outcome {
        Outcome::Worse if figure.regression => Tone::Bad,
        Outcome::Worse | Outcome::CannotTell => Tone::Doubtful,
        Outcome::Better => Tone::Good,
        Outcome::NoDifferent => Tone::Plain,
    }
}

fn amount(figure: &FigureComparison, value: f64) -> String {
    if figure.figure.larger_is_better() { rate(value) } else { duration(value) }
}

fn interval(figure: &FigureComparison, centre: &Centre) -> String {
    match (centre.low, centre.high) {
        (Some(low), Some(high)) => format!("{} … {}", amount(figure, low), amount(figure, high)),
        _ => "–".to_owned(),
    }
}

fn ratio_interval(figure: &FigureComparison) -> String {
    match (figure.ratio_low, figure.ratio_high) {
        (Some(low), Some(high)) => format!("{low:.3} … {high:.3}"),
        _ => "–".to_owned(),
    }
}

fn legend(page: &mut Page, comparison: &Comparison) {
    page.paragraph(
        0,
        "B / A: Hodges–Lehmann estimate of the ratio with its interval. p: by permutation, adjusted for all points (Holm). \
         Changed: p under 0.05, and the whole interval lies beyond the middle half of A's own trials.",
    );
    let within_trials =
        comparison.points.iter().flat_map(|point| &point.figures).find(|figure| figure.a.effective_seconds.is_some());
    if let Some(seconds) = within_trials.and_then(|figure| figure.a.effective_seconds) {
        page.paragraph(
            0,
            &format!("A has a single trial: its interval is from within it (its seconds are worth {seconds:.0} independent ones) and does not contain what differs between trials."),
        );
    }
}
