//! The report page as a file: what it says, how large it is, and that it is the same each time. `tests/servers/browser.rs` opens it.

use std::fs;
use std::path::Path;

use crate::harness::reports::{Case, KINDS, case};
use crate::harness::{Bench, Finished, PATIENCE, Running, brokermark};

/// Bytes that a page may have.
const MAX_BYTES: usize = 400_000;

fn report(case: &Case, arguments: &[&str]) -> Finished {
    let mut command = brokermark();
    command.arg("report").args(&case.runs).args(arguments);
    Running::start(&mut command).finish(PATIENCE).expect(0)
}

fn page(base: &Path, case: &Case) -> String {
    let file = base.join(format!("{}.html", case.name));
    report(case, &["--output", file.to_str().unwrap()]);
    fs::read_to_string(file).unwrap()
}

#[test]
fn page_of_every_kind_is_small_offline_reproducible() {
    let base = tempfile::tempdir().unwrap();
    for name in KINDS {
        let case = case(base.path(), name);
        let page = page(base.path(), &case);
        assert!(page.len() < MAX_BYTES, "{}: {} bytes", case.name, page.len());
        for request in ["src=", "url(", "@import", "<link rel=\"stylesheet\"", "fetch(", "href=\"http"] {
            assert!(!page.contains(request), "{} asks for something: {request}", case.name);
        }
        for broken in ["NaN", "inf,", "infinity", "Infinity"] {
            assert!(!page.contains(broken), "{}: {broken}", case.name);
        }
        let (figures, sentences) = (page.matches("<figure").count(), page.matches("<figcaption><h3>").count());
        assert_eq!(figures, sentences, "{}: a chart without title and sentence", case.name);
        assert!(!page.contains("</h3><p></p>"), "{}: an empty sentence", case.name);
        if case.name != "day" && case.name != "thousand-points" {
            assert_eq!(page, self::page(base.path(), &case), "{}: other bytes of the same run", case.name);
        }
    }
}

fn one(name: &'static str) -> String {
    let base = tempfile::tempdir().unwrap();
    page(base.path(), &case(base.path(), name))
}

#[test]
fn page_head_says_validity_rate_and_limit() {
    let page = one("single");
    let head = &page[page.find("<header>").unwrap()..page.find("</header>").unwrap()];
    for part in [
        "Held 49,994\u{a0}messages/s; p99\u{a0}3.06\u{a0}ms",
        "✗</span> Valid, but a threshold was missed",
        "Nothing: the wanted rate was held",
    ] {
        assert!(head.contains(part), "{part} in {head}");
    }
    let page = one("failed");
    let head = &page[page.find("<header>").unwrap()..page.find("</header>").unwrap()];
    assert!(head.contains("✗</span> Failed") && head.contains("&lt;closed&gt; &amp; &quot;gone&quot;"), "{head}");
}

#[test]
fn page_head_of_every_kind_says_trust_and_limit() {
    let head = |name| {
        let page = one(name);
        page[page.find("<header>").unwrap()..page.find("</header>").unwrap()].to_owned()
    };
    for name in KINDS {
        let head = head(name);
        let answers = [("Can it be trusted?", true), ("What limited it?", name != "failed")];
        for (question, is_asked) in answers {
            assert_eq!(head.contains(&format!("<h2>{question}</h2>")), is_asked, "{name}: {question} in {head}");
        }
        assert_eq!(head.contains("<h2>Is B worse than A?</h2>"), name == "comparison", "{name}");
    }
    let compared = head("comparison");
    assert!(compared.contains("Valid trials: ") && compared.contains("; medians: A "), "{compared}");
    let sentence = &compared[compared.find("<h1>").unwrap()..compared.find("</h1>").unwrap()];
    assert!(sentence.contains(" than A") && sentence.starts_with("<h1>B"), "which side is better: {sentence}");
    let pipeline = head("pipeline");
    assert!(
        pipeline.contains("<dt>rows per second</dt>") && pipeline.contains("messages/s of producers"),
        "{pipeline}"
    );
    let search = head("search");
    let label = |label: &str| search.find(&format!("<dt>{label}</dt>")).unwrap_or_else(|| panic!("{label}: {search}"));
    assert!(label("messages per second") < label("p99 at that rate"));
    assert!(label("p99 at that rate") < label("rate that half of all probes hold"));
}

#[test]
fn charts_become_files_and_a_choice_a_page_of_one_trial() {
    let base = tempfile::tempdir().unwrap();
    let (single, sweep) = (case(base.path(), "single"), case(base.path(), "one-axis"));
    let charts = base.path().join("charts");
    report(&single, &["--svg", charts.to_str().unwrap()]);
    let rate = fs::read_to_string(charts.join("rate.svg")).unwrap();
    assert!(rate.starts_with("<svg xmlns=") && rate.contains("<title>Rate</title><desc>"), "{rate}");
    assert!(rate.contains("prefers-color-scheme:dark") && !rate.contains("var("), "{rate}");
    assert!(charts.join("latency-by-percentile.svg").exists());
    let mut command = brokermark();
    command
        .arg("report")
        .args(&single.runs)
        .arg("--png")
        .arg(&charts)
        .env("PATH", "")
        .env_remove("BROKERMARK_CHROMIUM");
    Running::start(&mut command).finish(PATIENCE).expect(1).complains_of(&["no browser", "--svg"]);
    let chosen = report(&sweep, &["--point", "1", "--trial", "2", "--output", "-"]).stdout;
    assert!(chosen.contains("<dt>median response time</dt>") && !chosen.contains("Every point"));
    let mut command = brokermark();
    command.arg("report").args(&sweep.runs).args(["--point", "99"]);
    Running::start(&mut command).finish(PATIENCE).expect(1).complains_of(&["no such trial", "brokermark show"]);
}

#[test]
fn a_run_and_two_in_turn_write_their_page() {
    let scenario = "broker.kind = \"null\"\nload.rate = \"1k/s\"\nrun.messages = 200\nproducers.count = 1\n";
    let bench = Bench::new(scenario);
    bench.run(&["--report"]).expect(0);
    let page = fs::read_to_string(bench.run_directory().join("report.html")).unwrap();
    let head = &page[page.find("<header>").unwrap()..page.find("</header>").unwrap()];
    assert!(
        head.contains("!</span> Only as a demonstration") && head.contains("Also: ") && !head.contains('✗'),
        "{head}"
    );
    assert!(
        page.contains("!</span> Too little was measured</b> <small>too-short</small>"),
        "200 ms are too short: {page}"
    );
    let bench = Bench::new(scenario);
    bench.run(&["--report", "--against-set", "producers.batch=2"]).expect(0);
    let written = bench.run_directories().iter().filter(|run| run.join("report.html").exists()).count();
    assert_eq!(written, 1, "one page of both");
}
