//! A chart with all that makes it readable: its title, a sentence that says what to see, its values as a table.

use std::fmt::Write;

use super::svg::{Drawing, Shape, escape, marked, number};
use super::{html, theme};
use crate::present::Table;

/// Wide charts take the whole column, half ones stand in pairs. Each is drawn for a phone as well.
pub const WIDE: Shape = Shape { width: 900.0, height: 236.0 };
pub const HALF: Shape = Shape { width: 520.0, height: 330.0 };
pub const PHONE: Shape = Shape { width: 344.0, height: 230.0 };

/// Room around the drawing in a file of its own, which a page gives it, in pixels.
const MARGIN: u32 = 12;

/// A chart of the page.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Names it in the page and as a file: `rate`, `latency-over-time`.
    pub id: String,
    pub title: String,
    /// What to see, from the data.
    pub sentence: String,
    pub wide: Drawing,
    pub narrow: Drawing,
    /// The text alternative.
    pub table: Table,
    /// What numbered flags stand for.
    pub events: Vec<String>,
    /// For the values under the pointer.
    pub values: Option<Values>,
}

/// Values for the script.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    /// `time`, in seconds, or `tail`, in nines.
    pub axis: &'static str,
    /// Where the axis ends; it begins at 0.
    pub until: f64,
    pub unit: &'static str,
    pub at: Vec<f64>,
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

impl Figure {
    /// Draws it in both sizes.
    pub fn draw(
        id: &str,
        title: &str,
        sentence: String,
        shapes: (Shape, Shape),
        draw: impl Fn(Shape) -> Drawing,
    ) -> Self {
        Figure {
            id: id.to_owned(),
            title: title.to_owned(),
            sentence,
            wide: draw(shapes.0),
            narrow: draw(shapes.1),
            table: Table::default(),
            events: Vec::new(),
            values: None,
        }
    }

    pub fn html(&self, level: u8) -> String {
        let mut text = format!(
            "<figure id=\"{0}\"><figcaption><h{level}>{1}</h{level}><p>{2}</p></figcaption><div class=\"chart\">",
            escape(&self.id),
            escape(&self.title),
            marked(&self.sentence)
        );
        text += &self.svg(&self.wide, "wide");
        text += &self.svg(&self.narrow, "narrow");
        text += "</div>";
        if !self.events.is_empty() {
            let items: String = self.events.iter().map(|event| format!("<li>{}</li>", escape(event))).collect();
            let _ = write!(text, "<ol class=\"events\">{items}</ol>");
        }
        if let Some(values) = &self.values {
            let _ = write!(text, "<script type=\"application/json\">{}</script>", values.json());
        }
        text += &html::folded_table(&self.table);
        text + "</figure>"
    }

    fn svg(&self, drawing: &Drawing, class: &str) -> String {
        let [left, top, width, height] = drawing.plot.map(number);
        let until = drawing.until.map(|until| format!(" data-until=\"{}\"", short(Some(until)))).unwrap_or_default();
        format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}: {}\" data-plot=\"{left} {top} {width} {height}\"{until}>{}</svg>",
            number(drawing.shape.width),
            number(drawing.shape.height),
            escape(&self.title),
            escape(&self.sentence),
            drawing.body
        )
    }

    /// How large the file is, in pixels.
    pub fn size_of_file(&self) -> (u32, u32) {
        let whole = |pixels: f64| pixels.ceil() as u32 + 2 * MARGIN;
        (whole(self.wide.shape.width), whole(self.wide.shape.height))
    }

    /// A file of its own, which follows the reader's preference for light or dark.
    pub fn file(&self) -> String {
        let (width, height) = self.size_of_file();
        let (light, dark) = (theme::standalone(false), theme::standalone(true));
        let rules = format!("{light}@media (prefers-color-scheme:dark){{{dark}}}");
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"-{MARGIN} -{MARGIN} {0} {1}\" role=\"img\">\
             <title>{2}</title><desc>{3}</desc><style>{4}</style>\
             <rect class=\"paper\" x=\"-{MARGIN}\" y=\"-{MARGIN}\" width=\"100%\" height=\"100%\"/>{5}</svg>\n",
            width,
            height,
            escape(&self.title),
            escape(&self.sentence),
            escape_rules(&rules),
            self.wide.body
        )
    }
}

/// Rules have quotation marks, but nothing else that XML would take for markup.
fn escape_rules(rules: &str) -> String {
    rules.replace('&', "&amp;").replace('<', "&lt;")
}

impl Values {
    fn json(&self) -> String {
        let list = |values: &mut dyn Iterator<Item = Option<f64>>| values.map(short).collect::<Vec<_>>().join(",");
        let series: Vec<String> = self
            .series
            .iter()
            .map(|(name, values)| {
                // The name of a series may come from a scenario: nothing in it may end the script.
                let name = serde_json::Value::from(name.as_str()).to_string().replace('<', "\\u003c");
                format!("[{name},[{}]]", list(&mut values.iter().copied()))
            })
            .collect();
        format!(
            "{{\"axis\":\"{}\",\"until\":{},\"unit\":\"{}\",\"at\":[{}],\"series\":[{}]}}",
            self.axis,
            short(Some(self.until)),
            self.unit,
            list(&mut self.at.iter().copied().map(Some)),
            series.join(",")
        )
    }
}

/// With four digits.
fn short(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "null".to_owned() };
    if value == 0.0 {
        return "0".to_owned();
    }
    let power = 10f64.powi(3 - value.abs().log10().floor() as i32);
    let rounded = (value * power).round() / power;
    if rounded.fract() == 0.0 { format!("{rounded:.0}") } else { format!("{rounded}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_the_script_are_short() {
        assert_eq!([0.0, 1234567.0, 0.123456, 12.0].map(|value| short(Some(value))), ["0", "1235000", "0.1235", "12"]);
        assert_eq!(short(Some(f64::NAN)), "null");
    }

    #[test]
    fn a_name_cannot_end_the_script() {
        let values =
            Values { axis: "time", until: 1.0, unit: "ns", at: vec![], series: vec![("</script>".to_owned(), vec![])] };
        assert!(!values.json().contains("</script"), "{}", values.json());
    }
}
