//! A comparison as text.

use crate::cli::show::View;
use crate::cli::show::page::{Page, Tone};
use crate::cli::show::table::{self, Align, Column};
use crate::evaluate::comparison::{
    Centre, Comparison, Count, CountComparison, FigureComparison, Outcome, PointComparison, Verdict,
};
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
    let (tone, verdict) = match (comparison.verdict, comparison.regressions()) {
        (Verdict::NoRegressionFound, _) => (Tone::Good, "no regression found".to_owned()),
        (Verdict::NotKnown, _) => (Tone::Bad, "not known whether B is worse".to_owned()),
        (Verdict::Regression, 1) => (Tone::Bad, "1 regression".to_owned()),
        (Verdict::Regression, several) => (Tone::Bad, format!("{several} regressions")),
    };
    let points = match comparison.points.len() {
        1 => "1 point".to_owned(),
        several => format!("{several} points"),
    };
    page.led(&format!("{verdict} · "), tone, &format!("{points} · {}", comparison.design_in_words()));
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
    let named = if values.is_empty() { String::new() } else { format!("{} · ", values.join(", ")) };
    page.paragraph(0, &format!("{named}trials: {} of A, {} of B", point.trials_of_a, point.trials_of_b));
    let sides = [("A", &point.trials_of_a), ("B", &point.trials_of_b)];
    let invalid = sides.into_iter().filter(|(_, trials)| trials.valid == 0 && trials.completed > 0);
    let untrusted: Vec<&str> = invalid.map(|(side, _)| side).collect();
    if !untrusted.is_empty() {
        let sides = untrusted.join(" or ");
        page.led("✗ ", Tone::Bad, &format!("No trial of {sides} is valid: its figures are not to be trusted."));
    }
    counts(page, &point.counts);
    figures(page, &point.figures, tolerance);
    for missing in &point.missing_figures {
        page.led(&format!("{}: ", missing.figure), Tone::Doubtful, &format!("not compared: {}", missing.reason));
    }
}

/// What went wrong on at least one side.
fn counts(page: &mut Page, counts: &[CountComparison]) {
    let (told, zero): (Vec<&CountComparison>, Vec<&CountComparison>) =
        counts.iter().partition(|count| count.is_telling());
    if !zero.is_empty() {
        let names: Vec<String> = zero.iter().map(|count| count.count.to_string()).collect();
        page.labelled("none", &names.join(", "));
    }
    for count in told {
        let side = |count: &Option<Count>| count.map_or("–".to_owned(), |count| count.to_string());
        let (mark, tone) = match count.outcome {
            Outcome::Worse => ("✗ ", Tone::Bad),
            Outcome::Better => ("✓ ", Tone::Good),
            Outcome::CannotTell => ("! ", Tone::Doubtful),
            Outcome::NoDifferent => ("  ", Tone::Plain),
        };
        let text = format!("{} in A, {} in B: {}", side(&count.a), side(&count.b), count.conclusion());
        page.led(&format!("{mark}{}: ", count.count), tone, &text);
    }
}

fn figures(page: &mut Page, figures: &[FigureComparison], tolerance: f64) {
    if figures.is_empty() {
        return;
    }
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
    if comparison.least_change.is_some() {
        page.paragraph(
            0,
            "The intervals and p contain what runs differ by (--between-runs). To find smaller changes, let the sides take turns \
             (`run --against`), or give each side four runs or more.",
        );
    }
    let within_trials =
        comparison.points.iter().flat_map(|point| &point.figures).find(|figure| figure.a.effective_seconds.is_some());
    if let Some(seconds) = within_trials.and_then(|figure| figure.a.effective_seconds) {
        page.paragraph(
            0,
            &format!("A has a single trial: its interval is from within it (its seconds are worth {seconds:.0} independent ones) and does not contain what differs between trials."),
        );
    }
}
