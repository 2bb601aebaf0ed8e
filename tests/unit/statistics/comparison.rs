use super::*;

const A: [f64; 6] = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2];

fn concluded(b: &[f64], design: Design, points: usize) -> Conclusion {
    let found = compare(&A, b, design).unwrap();
    conclude(&found, (found.p * points as f64).min(1.0), points, 0.05)
}

fn times(factor: f64) -> Vec<f64> {
    A.iter().rev().map(|figure| figure * factor).collect()
}

#[test]
fn a_clear_change_and_none() {
    for design in [Design::Independent, Design::Paired] {
        assert_eq!(concluded(&times(0.9), design, 1), Conclusion::Changed);
        assert_eq!(concluded(&times(1.001), design, 1), Conclusion::NoDifferent);
    }
    let found = compare(&A, &times(0.9), Design::Independent).unwrap();
    assert!((found.ratio - 0.9).abs() < 0.01 && found.band < 0.01, "{found:?}");
}

#[test]
fn too_few_trials_cannot_tell_and_say_how_many_would() {
    let few = compare(&A[..3], &times(0.5)[..3], Design::Independent).unwrap();
    assert_eq!(few.interval, None);
    assert_eq!(conclude(&few, few.p, 1, 0.05), Conclusion::CannotTell { more_trials: Some(1) });
    // Six pairs can have p = 2/64, which two points are too many for.
    assert_eq!(concluded(&times(0.9), Design::Paired, 2), Conclusion::CannotTell { more_trials: Some(1) });
}

#[test]
fn wide_intervals_ask_for_more() {
    let wide = [80.0, 125.0, 90.0, 110.0, 97.0, 104.0];
    match concluded(&wide, Design::Independent, 1) {
        Conclusion::CannotTell { more_trials: Some(more) } => assert!(more > 6, "{more}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn separate_runs_widen_the_interval_and_the_p() {
    let separate = Design::Separate { spread: 0.07 * 2f64.sqrt() };
    let (alone, apart) = (compare(&A, &times(0.9), Design::Independent), compare(&A, &times(0.9), separate));
    let (alone, apart) = (alone.unwrap(), apart.unwrap());
    assert_eq!((alone.ratio, alone.band), (apart.ratio, apart.band));
    let interval = apart.interval.unwrap();
    // exp(1.96 · 0.07 · √2) = 1.214, and a little for the trials.
    assert!((interval.high / interval.estimate - 1.215).abs() < 0.002, "{interval:?}");
    assert!((apart.p - 0.287).abs() < 0.005, "2 · Φ(−0.1054 / 0.099): {apart:?}");
    assert_eq!(concluded(&times(0.9), Design::Independent, 1), Conclusion::Changed);
    assert_eq!(concluded(&times(0.9), separate, 1), Conclusion::CannotTell { more_trials: None });
    assert_eq!(concluded(&times(0.7), separate, 1), Conclusion::Changed);
    assert!((least_change(0.07 * 2f64.sqrt()) - 0.214).abs() < 0.001);
}

#[test]
fn figures_that_are_not_positive_have_no_ratio() {
    assert_eq!(compare(&[0.0, 1.0], &[1.0], Design::Independent), None);
    assert_eq!(compare(&[], &[1.0], Design::Independent), None);
}

#[test]
fn as_r_adjusts_them() {
    // p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
    let found = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        assert!((found - expected).abs() < 1e-12, "{found}");
    }
    assert!(holm(&[]).is_empty());
}
