//! Thins a series to what a screen shows. Spikes stay: the smallest and the largest value of each column are kept.

/// A moment in seconds, and its value; `None` where it has none.
pub type Point = (f64, Option<f64>);

/// At most two values a column, in the order in which they came; `None` where a whole column has no value.
pub fn envelope(points: &[Point], until: f64, columns: usize) -> Vec<Point> {
    if points.len() <= 2 * columns {
        return points.to_vec();
    }
    let mut thinned = Vec::with_capacity(2 * columns);
    for column in in_columns(points, until, columns) {
        let known = || column.iter().filter(|point| point.1.is_some());
        let by_value = |one: &&Point, other: &&Point| one.1.unwrap_or(0.0).total_cmp(&other.1.unwrap_or(0.0));
        match (known().min_by(by_value), known().max_by(by_value)) {
            (Some(low), Some(high)) if low.1 == high.1 => thinned.push(*low),
            (Some(low), Some(high)) if low.0 < high.0 => thinned.extend([*low, *high]),
            (Some(low), Some(high)) => thinned.extend([*high, *low]),
            _ => thinned.extend(column.first()),
        }
    }
    thinned
}

/// How the values of a column become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    Mean,
    Largest,
}

/// One value a column, for a table or for values under a pointer: moments are those at which columns begin.
pub fn folded(points: &[Point], until: f64, columns: usize, fold: Fold) -> Vec<Point> {
    if points.len() <= columns {
        return points.to_vec();
    }
    let of = |column: &[Point]| {
        let known: Vec<f64> = column.iter().filter_map(|point| point.1).collect();
        let value = match fold {
            _ if known.is_empty() => None,
            Fold::Mean => Some(crate::statistics::mean(&known)),
            Fold::Largest => known.iter().copied().reduce(f64::max),
        };
        Some((column.first()?.0, value))
    };
    in_columns(points, until, columns).filter_map(of).collect()
}

/// Points of equal columns of time, in their order.
fn in_columns(points: &[Point], until: f64, columns: usize) -> impl Iterator<Item = &[Point]> {
    let column_of = move |point: &Point| ((point.0 / until.max(f64::MIN_POSITIVE)) * columns as f64) as usize;
    points.chunk_by(move |one, other| column_of(one) == column_of(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_of_one_second_stays_in_a_day() {
        let mut points: Vec<Point> = (0..86_400).map(|second| (f64::from(second), Some(100.0))).collect();
        points[40_000].1 = Some(9_000.0);
        points[70_000].1 = Some(0.0);
        let thin = envelope(&points, 86_400.0, 400);
        assert!(thin.len() <= 800, "{}", thin.len());
        assert!(thin.contains(&points[40_000]) && thin.contains(&points[70_000]));
        assert!(thin.windows(2).all(|pair| pair[0].0 < pair[1].0), "in their order");
        let largest = folded(&points, 86_400.0, 100, Fold::Largest);
        assert!(largest.iter().any(|point| point.1 == Some(9_000.0)) && largest.len() <= 100);
    }

    #[test]
    fn few_points_and_gaps_stay_as_they_are() {
        let points = [(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0))];
        assert_eq!(envelope(&points, 3.0, 100), points);
        let gap: Vec<Point> = (0..1000).map(|second| (f64::from(second), (second < 500).then_some(1.0))).collect();
        assert!(envelope(&gap, 1000.0, 10).iter().any(|point| point.1.is_none()));
    }
}
