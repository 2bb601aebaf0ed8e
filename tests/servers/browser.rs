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
const WIDTHS: [u32; 2] = [360, 1600];

fn page(base: &Path, case: &Case) -> String {
    let file = base.join(format!("{}.html", case.name));
    let mut command = brokermark();
    command.arg("report").args(&case.runs).arg("--output").arg(&file);
    Running::start(&mut command).finish(PATIENCE).expect(0);
    fs::read_to_string(file).unwrap()
}

/// One page with all others as texts, for frames of the same origin.
fn frames(pages: &[(&str, String)]) -> String {
    let mut texts = String::new();
    for (name, page) in pages {
        let text = Value::from(page.as_str()).to_string().replace("</", "<\\/");
        write!(texts, "[{name:?},{text}],").unwrap();
    }
    format!(
        "<!doctype html><meta charset=utf-8><body><pre id=findings></pre><script>const pages=[{texts}],widths={WIDTHS:?};{EXAMINER}</script>"
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
fn pages_are_complete_and_readable_from_a_phone_to_a_wide_screen_light_and_dark() {
    let base = tempfile::tempdir().unwrap();
    let pages: Vec<(&str, String)> =
        KINDS.iter().map(|name| (*name, page(base.path(), &case(base.path(), name)))).collect();
    let file = base.path().join("frames.html");
    fs::write(&file, frames(&pages)).unwrap();
    for theme in ["light", "dark"] {
        let begin = Instant::now();
        let found = examined(base.path(), &file, theme);
        eprintln!("{theme}: {} pages drawn and looked at in {:?}", found.len(), begin.elapsed());
        assert_eq!(found.len(), pages.len() * WIDTHS.len(), "{theme}");
        for one in found {
            let size = pages.iter().find(|page| one["page"] == page.0).map_or(0, |page| page.1.len());
            eprintln!("{} at {} px, {theme}: {size} bytes, {} texts", one["page"], one["width"], one["texts"]);
            assert_eq!(one["dark"], theme == "dark", "{one}");
            assert_eq!(one["faults"], Value::Array(vec![]), "{} at {} px, {theme}", one["page"], one["width"]);
            assert!(one["texts"].as_u64() > Some(20), "texts were looked at: {one}");
        }
    }
}
