//! Charts as SVG text: pure functions of data. They carry class names instead of colours, so that one drawing serves a light and
//! a dark page; [`theme`](super::theme) has the colours.
//!
//! - `axes`: from values to places, ticks and grid. `unit`: how values are written.
//! - `lines`: figures over time. `dots`: a figure over the points of a sweep.
//! - `bars`: figures of named things, and ratios with their intervals. `heat`: a grid of shades.

pub mod axes;
pub mod bars;
pub mod dots;
pub mod heat;
pub mod lines;
pub mod unit;

use std::fmt::Write;

/// The size of a drawing, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    pub width: f64,
    pub height: f64,
}

impl Shape {
    /// Whether it is the one for a phone.
    pub fn is_narrow(self) -> bool {
        self.width < 500.0
    }
}

/// A chart that was drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    pub shape: Shape,
    /// The elements inside `<svg>`.
    pub body: String,
    /// Where the values lie in it: left, top, width, height.
    pub plot: [f64; 4],
    /// Of a chart over time, how long it is, in seconds: the page's script may enlarge a part of it.
    pub until: Option<f64>,
}

/// Elements, one after the other.
#[derive(Debug, Default)]
pub struct Canvas {
    body: String,
}

impl Canvas {
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.path(class, &format!("M{},{}L{},{}", number(from.0), number(from.1), number(to.0), number(to.1)));
    }

    pub fn path(&mut self, class: &str, data: &str) {
        if !data.is_empty() {
            let _ = write!(self.body, "<path class=\"{class}\" d=\"{data}\"/>");
        }
    }

    pub fn rectangle(&mut self, class: &str, [x, y, width, height]: [f64; 4]) {
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
            number(x),
            number(y),
            number(width.max(0.0)),
            number(height.max(0.0))
        );
    }

    /// `class` has `m` or `e` where the text is to end in the middle or at the end.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let _ = write!(
            self.body,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
            number(x),
            number(y),
            escape(text)
        );
    }

    /// A text that belongs to a moment, in seconds, and moves with it.
    pub fn text_at(&mut self, class: &str, seconds: f64, (x, y): (f64, f64), text: &str) {
        let _ = write!(
            self.body,
            "<text class=\"{class}\" data-at=\"{}\" x=\"{}\" y=\"{}\">{}</text>",
            (seconds * 1e3).round() / 1e3,
            number(x),
            number(y),
            escape(text)
        );
    }

    /// Begins what lies on the time axis: a drawing of its own inside this one, whose part the script may show alone.
    pub fn open_window(&mut self, [left, top, width, height]: [f64; 4]) {
        // Lines at the upper and the lower end are whole.
        let place = [left, top - 3.0, width, height + 5.0].map(number);
        let [left, top, width, height] = &place;
        let _ = write!(
            self.body,
            "<svg class=\"window\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" viewBox=\"{}\" preserveAspectRatio=\"none\">",
            place.join(" ")
        );
    }

    pub fn close_window(&mut self) {
        self.body.push_str("</svg>");
    }

    /// Begins and ends the ticks of the horizontal axis, which the script may replace.
    pub fn open_ticks(&mut self) {
        self.body.push_str("<g class=\"ticks\">");
    }

    /// Begins the group of a series, which the reader may switch off.
    pub fn open_series(&mut self, index: usize) {
        let _ = write!(self.body, "<g data-series=\"{index}\">");
    }

    /// Ends a series, or the ticks.
    pub fn close_group(&mut self) {
        self.body.push_str("</g>");
    }

    pub fn finish(self, shape: Shape, plot: [f64; 4]) -> Drawing {
        Drawing { shape, body: self.body, plot, until: None }
    }
}

/// A coordinate with a digit after the point, where that is needed.
pub fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// Text for HTML, SVG and their attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML has no other control characters.
            letter if letter.is_control() && !matches!(letter, '\n' | '\t') => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// The same, with what stands between backticks as code.
pub fn marked(text: &str) -> String {
    let escaped = escape(text);
    let pieces: Vec<&str> = escaped.split('`').collect();
    // An odd number of backticks means something else.
    if pieces.len().is_multiple_of(2) {
        return escaped;
    }
    let of = |(index, piece): (usize, &&str)| {
        if index % 2 == 1 { format!("<code>{piece}</code>") } else { (*piece).to_owned() }
    };
    pieces.iter().enumerate().map(of).collect()
}

/// About how wide a text is at 12 pixels: digits and small letters of the usual fonts.
pub fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.7
}

/// With more characters, a name in a chart is shortened; the table below it has the whole.
const MAX_NAME: usize = 18;

/// A name that stands beside a chart.
pub fn shortened(name: &str) -> String {
    if name.chars().count() <= MAX_NAME {
        return name.to_owned();
    }
    name.chars().take(MAX_NAME - 1).chain(['…']).collect()
}

/// A name below an axis, of which the end tells one from the next: topics with their partitions.
pub fn end_of(name: &str) -> String {
    let beyond = name.chars().count().saturating_sub(MAX_NAME);
    if beyond == 0 { name.to_owned() } else { ['…'].into_iter().chain(name.chars().skip(beyond + 1)).collect() }
}

/// Moves labels, which lie at these heights, so far apart that none covers another, within `low` and `high`.
pub fn apart(mut wanted: Vec<(usize, f64)>, distance: f64, low: f64, high: f64) -> Vec<(usize, f64)> {
    wanted.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut lowest = low;
    for place in &mut wanted {
        place.1 = place.1.max(lowest);
        lowest = place.1 + distance;
    }
    let mut highest = high;
    for place in wanted.iter_mut().rev() {
        place.1 = place.1.min(highest);
        highest = place.1 - distance;
    }
    wanted
}

/// The shape of a mark, so that series differ without their colours.
pub fn mark(kind: Mark, x: f64, y: f64) -> String {
    let (x, y) = (x.clamp(-1e5, 1e5), y.clamp(-1e5, 1e5));
    match kind {
        // A line of no length with round ends is a dot, and the shortest way to write one.
        Mark::Dot => format!("M{},{}h0", number(x), number(y)),
        Mark::Cross => format!("M{},{}l6,6m0,-6l-6,6", number(x - 3.0), number(y - 3.0)),
        Mark::Diamond => format!("M{},{}l4.5,4.5l-4.5,4.5l-4.5,-4.5z", number(x), number(y - 4.5)),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Dot,
    Cross,
    Diamond,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_name_is_kept() {
        assert_eq!(end_of("orders-of-the-eastern-region-3/4"), "…astern-region-3/4");
        assert_eq!((end_of("orders/4").as_str(), shortened("orders/4").as_str()), ("orders/4", "orders/4"));
        assert_eq!(end_of(&"é".repeat(40)).chars().count(), MAX_NAME);
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!([0.0, -0.01, 1.0, 12.34, 99.96].map(number), ["0", "0", "1", "12.3", "100"]);
    }

    #[test]
    fn nothing_of_a_record_becomes_markup() {
        assert_eq!(escape("<a b=\"c\">&'\u{1b}"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39; ");
    }

    #[test]
    fn labels_are_moved_apart_and_stay_inside() {
        let places = apart(vec![(0, 50.0), (1, 51.0), (2, 99.0), (3, 98.0)], 10.0, 0.0, 100.0);
        let heights: Vec<f64> = places.iter().map(|place| place.1).collect();
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 10.0), "{places:?}");
        assert!(heights.iter().all(|height| (0.0..=100.0).contains(height)), "{places:?}");
    }
}
