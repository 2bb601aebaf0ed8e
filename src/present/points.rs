//! The points of a sweep: which keys differ, where each point lies, and its figures over its valid trials.

use std::collections::BTreeMap;

use serde_json::Value;

use super::verdict;
use crate::record::readable::plain;
use crate::record::{Record, Status};
use crate::statistics::{Quartiles, centre, extent, median, quartiles};

/// A point with its trials, in the order in which they are numbered.
pub struct Point<'a> {
    pub values: &'a BTreeMap<String, Value>,
    pub records: Vec<&'a Record>,
}

/// A figure of a point's trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Spot {
    pub name: String,
    /// The figure of each trial, and whether the trial is valid.
    pub trials: Vec<(f64, bool)>,
    /// The point's middle; `None` where a trial that counts lacks the figure.
    pub middle: Option<f64>,
    /// The 95 % interval of it.
    pub interval: Option<(f64, f64)>,
}

/// The middle, the middle half and the ends of one figure over several trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub lowest: f64,
    pub quartiles: Quartiles,
    pub highest: f64,
}

impl Spread {
    fn new(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (lowest, highest) = (*figures.first()?, *figures.last()?);
        Some(Spread { lowest, quartiles: quartiles(&figures)?, highest })
    }

    /// Highest minus lowest, as a share of the median.
    pub fn share(&self) -> f64 {
        let median = self.quartiles.median;
        if median > 0.0 { (self.highest - self.lowest) / median } else { 0.0 }
    }
}

/// How points lie to each other.
#[derive(Debug, Clone, PartialEq)]
pub enum Axes {
    /// No point differs: repetitions only.
    None,
    /// One key, or several that change together.
    One(Vec<String>),
    /// Every value of the one with every value of the other.
    Two(String, String),
    /// Anything else.
    Many(Vec<String>),
}

impl Axes {
    /// What names a point: of keys that change together, the first one.
    pub fn names(&self) -> Vec<String> {
        let mut keys = self.keys();
        if let Axes::One(_) = self {
            keys.truncate(1);
        }
        keys
    }

    /// What differs from point to point.
    pub fn keys(&self) -> Vec<String> {
        match self {
            Axes::None => Vec::new(),
            Axes::One(keys) | Axes::Many(keys) => keys.clone(),
            Axes::Two(one, other) => vec![one.clone(), other.clone()],
        }
    }
}

/// The trials by point.
pub fn by_point<'a>(records: &[&'a Record]) -> Vec<Point<'a>> {
    let mut points: BTreeMap<usize, Point<'a>> = BTreeMap::new();
    for record in records {
        let point =
            points.entry(record.point_index).or_insert_with(|| Point { values: &record.point, records: Vec::new() });
        point.records.push(record);
    }
    points.into_values().collect()
}

impl Point<'_> {
    /// The trials that count: the valid ones and demonstrations; without any, all that were measured to their end.
    pub fn counted(&self) -> Vec<&Record> {
        let those = |is_one: fn(&Record) -> bool| {
            self.records.iter().copied().filter(|record| is_one(record)).collect::<Vec<_>>()
        };
        let counted = those(verdict::counts);
        if counted.is_empty() { those(|record| record.status == Status::Completed) } else { counted }
    }

    /// How many of them are valid, or demonstrations.
    pub fn valid(&self) -> usize {
        self.records.iter().filter(|record| verdict::counts(record)).count()
    }

    /// The values of these keys, as a name.
    pub fn name(&self, keys: &[String]) -> String {
        keys.iter().filter_map(|key| self.values.get(key)).map(plain).collect::<Vec<_>>().join(", ")
    }

    /// The figure over the trials that count; `None` if one of them lacks it: a median of the others would be that of other trials.
    pub fn spread(&self, figure: &dyn Fn(&Record) -> Option<f64>) -> Option<Spread> {
        let figures: Option<Vec<f64>> = self.counted().into_iter().map(figure).collect();
        Spread::new(figures?)
    }

    /// The figure of every trial that ended, and its middle over those that count; without one, as [`Point::spread`], if one of these lacks it.
    pub fn spot(&self, name: String, figure: &dyn Fn(&Record) -> Option<f64>) -> Spot {
        let ended = self.records.iter().filter(|record| record.status != Status::Failed);
        let counted: Option<Vec<f64>> = self.counted().into_iter().map(figure).collect();
        let counted = counted.unwrap_or_default();
        Spot {
            name,
            trials: ended.filter_map(|record| Some((figure(record)?, record.verdict.valid))).collect(),
            middle: median(&counted),
            interval: centre(&counted).map(|interval| (interval.low, interval.high)),
        }
    }
}

/// The keys whose values differ, and how.
pub fn axes(points: &[Point<'_>]) -> Axes {
    let mut values: BTreeMap<&String, Vec<&Value>> = BTreeMap::new();
    for (key, value) in points.iter().flat_map(|point| point.values) {
        let found = values.entry(key).or_default();
        if !found.contains(&value) {
            found.push(value);
        }
    }
    values.retain(|_, found| found.len() > 1);
    let mut groups: Vec<Vec<&String>> = Vec::new();
    for key in values.keys() {
        match groups.iter_mut().find(|group| change_together(points, group[0], key)) {
            Some(group) => group.push(key),
            None => groups.push(vec![key]),
        }
    }
    let keys: Vec<String> = groups.iter().flatten().map(|key| (*key).clone()).collect();
    let number = |group: &Vec<&String>| values.get(group[0]).map_or(0, Vec::len);
    match groups.as_slice() {
        [] if points.len() < 2 => Axes::None,
        [one] if number(one) == points.len() => Axes::One(keys),
        [one, other] if number(one) * number(other) == points.len() => Axes::Two(one[0].clone(), other[0].clone()),
        _ => Axes::Many(groups.iter().map(|group| group[0].clone()).collect()),
    }
}

/// Whether each value of the one comes with one value of the other only, and the other way round.
fn change_together(points: &[Point<'_>], one: &str, other: &str) -> bool {
    let text = |point: &Point<'_>, key: &str| point.values.get(key).map(Value::to_string);
    let is_function = |from: &str, to: &str| {
        let mut seen: BTreeMap<Option<String>, Option<String>> = BTreeMap::new();
        points.iter().all(|point| *seen.entry(text(point, from)).or_insert_with(|| text(point, to)) == text(point, to))
    };
    is_function(one, other) && is_function(other, one)
}

/// The number that a value stands for: `4`, `"10 KiB"`, `"20k/s"`, `"500ms"`; `None` of a name.
pub fn amount(value: &Value) -> Option<f64> {
    if let Some(number) = value.as_f64() {
        return Some(number);
    }
    let text = value.as_str()?.trim();
    let end =
        text.find(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != '_').unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    let unit = text[end..].trim().trim_end_matches("/s");
    let factor = match unit {
        "" | "B" | "s" => 1.0,
        "k" | "K" | "kB" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "TB" => 1e12,
        "KiB" | "Ki" => 1024.0,
        "MiB" | "Mi" => 1024.0 * 1024.0,
        "GiB" | "Gi" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(number * factor)
}

/// Where numbers lie between 0 and 1: by their ratios where they span much, else by their differences. `None`: one of them is
/// no number.
pub fn places(points: &[Point<'_>], key: &str) -> Option<Vec<f64>> {
    let amounts: Option<Vec<f64>> = points.iter().map(|point| amount(point.values.get(key)?)).collect();
    let amounts = amounts?;
    let (low, high) = extent(amounts.iter().copied());
    if high <= low {
        return None;
    }
    let is_wide = low > 0.0 && high / low >= 10.0;
    let place =
        |value: &f64| if is_wide { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) };
    Some(amounts.iter().map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;
    use serde_json::json;

    fn records(values: &[&[(&str, Value)]]) -> Vec<Record> {
        let of = |(index, values): (usize, &&[(&str, Value)])| Record {
            point_index: index,
            point: values.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
            ..sample::record()
        };
        values.iter().enumerate().map(of).collect()
    }

    fn axes_of(values: &[&[(&str, Value)]]) -> Axes {
        let records = records(values);
        axes(&by_point(&records.iter().collect::<Vec<_>>()))
    }

    #[test]
    fn the_axes_of_a_sweep_are_found() {
        let key = str::to_owned;
        assert_eq!(axes_of(&[&[]]), Axes::None);
        assert_eq!(axes_of(&[&[("a", json!(1))], &[("a", json!(2))]]), Axes::One(vec![key("a")]));
        let together: [&[(&str, Value)]; 2] =
            [&[("a", json!(1)), ("b", json!(1))], &[("a", json!(2)), ("b", json!(2))]];
        assert_eq!(axes_of(&together), Axes::One(vec![key("a"), key("b")]));
        let all: [&[(&str, Value)]; 4] = [
            &[("a", json!(1)), ("b", json!("x"))],
            &[("a", json!(1)), ("b", json!("y"))],
            &[("a", json!(2)), ("b", json!("x"))],
            &[("a", json!(2)), ("b", json!("y"))],
        ];
        assert_eq!(axes_of(&all), Axes::Two(key("a"), key("b")));
        assert_eq!(axes_of(&all[..3]), Axes::Many(vec![key("a"), key("b")]));
    }

    #[test]
    fn amounts_have_units() {
        let amounts = [json!(3), json!("10 KiB"), json!("20k/s"), json!("500ms"), json!("lz4"), json!(true)]
            .map(|value| amount(&value));
        assert_eq!(amounts, [Some(3.0), Some(10_240.0), Some(20_000.0), Some(0.5), None, None]);
        for unit in [
            "B", "kB", "KB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB", "ns", "us", "µs", "μs", "ms", "s", "m",
            "min", "h",
        ] {
            assert!(amount(&json!(format!("2{unit}"))).is_some(), "a scenario may have {unit}");
        }
        assert_eq!(amount(&json!("2KB")), Some(2_000.0));
    }

    #[test]
    fn a_figure_that_a_trial_lacks_has_no_median() {
        let mut trials = [sample::record(), sample::record()];
        let p99 = |record: &Record| record.latency.response.as_ref()?.p99_ns.map(|value_ns| value_ns as f64);
        let spread = |trials: &[Record]| by_point(&trials.iter().collect::<Vec<_>>())[0].spread(&p99);
        let spot = |trials: &[Record]| by_point(&trials.iter().collect::<Vec<_>>())[0].spot(String::new(), &p99);
        assert!(spread(&trials).is_some() && spot(&trials).middle.is_some());
        trials[1].latency.response.as_mut().unwrap().p99_ns = None;
        assert_eq!(spread(&trials), None);
        assert_eq!((spot(&trials).trials.len(), spot(&trials).middle, spot(&trials).interval), (1, None, None));
        trials[1].verdict.valid = false;
        assert!(spread(&trials).is_some(), "it does not count");
    }

    #[test]
    fn quartiles_lie_between_the_nearest_two() {
        // As numpy.percentile and R's quantile have it.
        let spread = Spread::new(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        let quartiles = Quartiles { lower: 1.75, median: 2.5, upper: 3.25 };
        assert_eq!(spread, Spread { lowest: 1.0, quartiles, highest: 4.0 });
        assert_eq!(Spread::new(vec![7.0]).unwrap().share(), 0.0);
        assert_eq!(Spread::new(Vec::new()), None);
    }
}
