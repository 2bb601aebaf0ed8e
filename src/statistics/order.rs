//! Median and quartiles.

/// The middle and the ends of the middle half.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quartiles {
    pub lower: f64,
    pub median: f64,
    pub upper: f64,
}

/// Quartiles of type 7 of Hyndman and Fan, *Sample Quantiles in Statistical Packages*, The American Statistician 50 (1996):
/// linear between the two nearest values. `None` of no values.
pub fn quartiles(values: &[f64]) -> Option<Quartiles> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() {
        return None;
    }
    let at = |share: f64| {
        let place = share * (sorted.len() - 1) as f64;
        let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    Some(Quartiles { lower: at(0.25), median: at(0.5), upper: at(0.75) })
}

/// The median; `None` of no values.
pub fn median(values: &[f64]) -> Option<f64> {
    quartiles(values).map(|quartiles| quartiles.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_numpy_and_r() {
        let found = quartiles(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(found, Quartiles { lower: 1.75, median: 2.5, upper: 3.25 });
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }
}
