//! Colours and the style of charts. The same rules serve the page, where they change with the reader's preference, and drawings of
//! their own.
//!
//! Series have the hues of Okabe and Ito (*Color Universal Design*, 2008), which readers with a colour vision deficiency can
//! tell apart, darkened or lightened until text in them has a contrast of 4.5 : 1 on the page. No chart needs them: series
//! have names at their ends, and different dashes.

/// Name, on a light page, on a dark one.
pub const COLOURS: [(&str, &str, &str); 27] = [
    ("paper", "#fdfdfc", "#15181c"),
    ("panel", "#f4f5f4", "#1d2126"),
    ("ink", "#1b1f24", "#e8eaed"),
    ("muted", "#575f69", "#a4adb8"),
    ("rule", "#dfe2e4", "#343a42"),
    ("grid", "#e8eaeb", "#2a2f36"),
    ("apart", "#eef0f0", "#22272e"),
    ("outage", "#f6d9d3", "#4a2723"),
    ("good", "#17693a", "#6fd39a"),
    ("bad", "#b3261e", "#ff9d94"),
    ("doubt", "#855600", "#e8bc5a"),
    ("s1", "#0b5fa5", "#74b7f2"),
    ("s2", "#b8460e", "#ffa477"),
    ("s3", "#0b7261", "#58cdb8"),
    ("s4", "#8a3f93", "#d9a3e3"),
    ("s5", "#7d5a00", "#e3bb55"),
    ("s6", "#575f69", "#a4adb8"),
    ("h1", "#e0ecf7", "#172c42"),
    ("h2", "#bcd7ee", "#1d4264"),
    ("h3", "#8bbbe0", "#265a88"),
    ("h4", "#2a74b0", "#5fa4dc"),
    ("h5", "#165a92", "#97c8f1"),
    ("h6", "#0a3b66", "#d5eaff"),
    ("on-light", "#14202c", "#f2f7fc"),
    ("on-dark", "#ffffff", "#0c1621"),
    ("focus", "#0b5fa5", "#74b7f2"),
    ("soft", "#e6f0e9", "#1c3326"),
];

const CHARTS: &str = include_str!("page/chart.css");

/// The colours as custom properties, for the page.
pub fn properties() -> String {
    let of = |pick: fn(&(&str, &str, &str)) -> String| COLOURS.iter().map(pick).collect::<String>();
    let light = of(|(name, light, _)| format!("--{name}:{light};"));
    let dark = of(|(name, _, dark)| format!("--{name}:{dark};"));
    format!(
        ":root{{color-scheme:light dark;{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{}",
        compact(CHARTS)
    )
}

/// The rules with their colours written out, for a drawing of its own.
pub fn standalone(is_dark: bool) -> String {
    let mut rules = compact(CHARTS);
    for (name, light, dark) in COLOURS {
        rules = rules.replace(&format!("var(--{name})"), if is_dark { dark } else { light });
    }
    rules
}

/// Without line breaks and indentation.
pub fn compact(rules: &str) -> String {
    rules.lines().map(str::trim).collect::<Vec<_>>().join("")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.2).
    fn luminance(colour: &str) -> f64 {
        let channel = |from: usize| {
            let value = f64::from(u8::from_str_radix(&colour[from..from + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn text_has_enough_contrast_in_both_themes() {
        let colour = |name: &str| COLOURS.into_iter().find(|colour| colour.0 == name).unwrap();
        let grounds = ["paper", "panel", "apart"];
        for name in ["ink", "muted", "good", "bad", "doubt", "s1", "s2", "s3", "s4", "s5", "s6"] {
            for ground in grounds {
                let (text, ground) = (colour(name), colour(ground));
                for (theme, found) in [("light", contrast(text.1, ground.1)), ("dark", contrast(text.2, ground.2))] {
                    assert!(found >= 4.5, "{name} on {}, {theme}: {found:.2}", ground.0);
                }
            }
        }
        for (shade, text) in [
            ("h1", "on-light"),
            ("h2", "on-light"),
            ("h3", "on-light"),
            ("h4", "on-dark"),
            ("h5", "on-dark"),
            ("h6", "on-dark"),
        ] {
            let (shade, text) = (colour(shade), colour(text));
            assert!(contrast(shade.1, text.1) >= 4.5 && contrast(shade.2, text.2) >= 4.5, "{}", shade.0);
        }
    }

    #[test]
    fn a_drawing_of_its_own_has_all_its_colours() {
        assert!(!standalone(false).contains("var("), "{}", standalone(false));
        assert!(properties().contains("--paper:#fdfdfc"));
    }
}
