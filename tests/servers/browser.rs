//! The report page in a real browser: no request, no error, nothing that leaves the window, and text that can be read, from a phone to
//! a wide screen, light and dark.
//!
//! All pages are opened in frames of one page, which looks at them and writes what it found into its own text. So the browser
//! starts twice only, once for each theme.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::harness::reports::{Case, KINDS, case};
use crate::harness::{PATIENCE, Running, brokermark};

/// What looks at the pages.
const EXAMINER: &str = include_str!("browser.js");

/// A phone and a wide screen, in pixels.
const SCREENS: &[u32] = &[360, 1600];

/// A sheet of A4 without its margins: 190 mm.
const PAPER: &[u32] = &[718];

/// A page as it is opened: with its text, at these widths.
struct Opened {
    name: String,
    text: String,
    widths: &'static [u32],
}

impl Opened {
    fn on_screens(base: &Path, name: &'static str) -> Self {
        Opened { name: name.to_owned(), text: page(base, &case(base, name)), widths: SCREENS }
    }

    /// As it would be printed: a frame is a screen, so the rules for paper are made to hold there.
    fn on_paper(&self) -> Self {
        assert!(self.text.contains("@media print{"), "{} has rules for paper", self.name);
        let text = self.text.replace("@media print{", "@media all{");
        Opened { name: format!("{} on paper", self.name), text, widths: PAPER }
    }
}

fn page(base: &Path, case: &Case) -> String {
    let file = base.join(format!("{}.html", case.name));
    let mut command = brokermark();
    command.arg("report").args(&case.runs).arg("--output").arg(&file);
    Running::start(&mut command).finish(PATIENCE).expect(0);
    fs::read_to_string(file).unwrap()
}

/// One page with all others as texts, for frames of the same origin.
fn frames(pages: &[Opened]) -> String {
    let mut texts = String::new();
    for Opened { name, text, widths } in pages {
        let text = Value::from(text.as_str()).to_string().replace("</", "<\\/");
        write!(texts, "[{name:?},{text},{widths:?}],").unwrap();
    }
    format!(
        "<!doctype html><meta charset=utf-8><body><pre id=findings></pre><script>const pages=[{texts}];{EXAMINER}</script>"
    )
}

/// What the browser found: an object for each page and width.
fn examined(base: &Path, file: &Path, theme: &str) -> Vec<Value> {
    let browser = std::env::var("BROKERMARK_CHROMIUM")
        .expect("BROKERMARK_CHROMIUM is not set: run `scripts/test`, which installs what this test needs");
    let mut command = Command::new(browser);
    command
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
        ])
        // What a script does in an hour of the page's own time, which does not pass while it has work.
        .args(["--virtual-time-budget=3600000", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={}", if theme == "dark" { 0 } else { 1 }))
        .arg(format!("--user-data-dir={}", base.join(format!("profile-{theme}")).display()))
        .arg(format!("file://{}", file.display()));
    let ended = Running::start(&mut command).finish(3 * PATIENCE).expect(0);
    let complaints: Vec<&str> = ended.stderr.lines().filter(|line| line.contains(":CONSOLE")).collect();
    assert!(complaints.is_empty(), "{theme}: {complaints:?}");
    let text = ended.stdout.split_once("<pre id=\"findings\">").expect("the page has its findings").1;
    let text = text.split_once("</pre>").unwrap().0.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{theme}: the pages were not all examined ({error}): {text}"))
}

#[test]
#[expect(clippy::print_stderr, reason = "how long it took, for those who run it")]
fn pages_are_readable_on_every_screen_theme_and_paper() {
    let base = tempfile::tempdir().unwrap();
    let mut pages: Vec<Opened> = KINDS.iter().map(|name| Opened::on_screens(base.path(), name)).collect();
    let printed: Vec<Opened> = pages.iter().map(Opened::on_paper).collect();
    pages.extend(printed);
    let file = base.path().join("frames.html");
    fs::write(&file, frames(&pages)).unwrap();
    for theme in ["light", "dark"] {
        let begin = Instant::now();
        let found = examined(base.path(), &file, theme);
        eprintln!("{theme}: {} pages drawn and looked at in {:?}", found.len(), begin.elapsed());
        assert_eq!(found.len(), pages.iter().map(|page| page.widths.len()).sum::<usize>(), "{theme}");
        for one in found {
            let size = pages.iter().find(|page| one["page"] == page.name).map_or(0, |page| page.text.len());
            eprintln!("{} at {} px, {theme}: {size} bytes, {} texts", one["page"], one["width"], one["texts"]);
            assert_eq!(one["dark"], theme == "dark", "{one}");
            assert_eq!(one["faults"], Value::Array(vec![]), "{} at {} px, {theme}", one["page"], one["width"]);
            assert!(one["texts"].as_u64() > Some(20), "texts were looked at: {one}");
        }
    }
}

#[test]
fn charts_become_pictures() {
    let base = tempfile::tempdir().unwrap();
    let (case, pictures) = (case(base.path(), "one-axis"), base.path().join("pictures"));
    let mut command = brokermark();
    command.arg("report").args(&case.runs).arg("--png").arg(&pictures);
    Running::start(&mut command).finish(3 * PATIENCE).expect(0);
    let picture = fs::read(pictures.join("throughput.png")).unwrap();
    // The header's first chunk: two pixels for each of a chart of 520 × 330 with its margin.
    assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n"));
    let number = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
    assert_eq!((number(16), number(20)), (2 * 544, 2 * 354));
    assert!(picture.len() > 8_000, "{} bytes: nothing was drawn", picture.len());
    assert!(pictures.join("latency-by-percentile.png").is_file());
}
