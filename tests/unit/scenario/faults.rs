use std::path::Path;

use crate::scenario::{Fault, parse_for};

fn faults(tables: &str) -> Result<Vec<Fault>, String> {
    let text = format!("broker.kind = \"null\"\nload.rate = \"1k/s\"\nrun.duration = \"60s\"\n{tables}");
    let plan = parse_for(crate::engine::kinds(), &text, "x.toml", &[], Path::new("."));
    plan.map(|plan| plan.trials[0].scenario.faults.clone()).map_err(|error| error.to_string())
}

fn told(tables: &str) -> Vec<String> {
    faults(tables).unwrap().iter().map(Fault::to_string).collect()
}

#[test]
fn faults_of_all_tables_come_in_the_order_of_their_times() {
    let tables = "[[faults]]\nat = \"40s\"\nrun = \"later\"\n[[faults]]\nat = \"20s\"\nrun = \"kill a\"\nundo = \"start a\"\nfor = \"20s\"";
    assert_eq!(told(tables), ["at 20s: `kill a`, undone after 20s by `start a`", "at 40s: `later`"]);
}

#[test]
fn a_repeated_fault_is_always_undone_before_the_load_ends() {
    assert_eq!(told("[[faults]]\nevery = \"20s\"\nrun = \"a\""), ["at 20s: `a`", "at 40s: `a`"]);
    let short = told("[[faults]]\nat = \"5s\"\nevery = \"20s\"\nrun = \"a\"\nundo = \"b\"\nfor = \"16s\"");
    assert_eq!(short, ["at 5s: `a`, undone after 16s by `b`", "at 25s: `a`, undone after 16s by `b`"]);
}

#[test]
fn a_command_cannot_seem_to_be_something_else() {
    let tables = "[[faults]]\nat = \"1s\"\nrun = \"echo \\\"1\\\"\\nrm -r x\\u001b[8m\"";
    assert_eq!(told(tables), ["at 1s: `echo \"1\"\\nrm -r x\\u{1b}[8m`"]);
}

#[test]
fn repetitions_have_a_limit_and_an_end() {
    let error = faults("[[faults]]\nevery = \"50ms\"\nrun = \"a\"").unwrap_err();
    assert!(error.contains("repeated more than 1,000 times"), "{error}");
    let endless = "broker.kind = \"null\"\nrun.messages = 5\n[[faults]]\nevery = \"1s\"\nrun = \"a\"";
    let error = parse_for(crate::engine::kinds(), endless, "x.toml", &[], Path::new(".")).unwrap_err().to_string();
    assert!(error.contains("set `run.duration`"), "{error}");
}
