//! Scripts beside the program: what they say where they cannot do what they are asked.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn hosts_shows_its_usage_where_arguments_are_missing() {
    for arguments in [&["cut"][..], &["join"], &["shape"], &["on"], &["on", "2"], &["run"], &["run", "2"]] {
        let output = Command::new(scripts().join("hosts")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("scripts/hosts up 4"), "{arguments:?}: {}", said(&output));
    }
}

/// A process that waits for a disk does not end, not even when it is killed.
#[test]
fn brokers_gives_up_on_a_server_that_cannot_be_killed() {
    let script = r#"
eval "$(sed -n '/^halt()/,/^}/p' "$1")"
die() { echo "$*"; exit 1; }
running() { true; }
group_running() { true; }
kill() { true; }
sleep() { true; }
server=kafka pid=17 stop_within=0
halt TERM
"#;
    let output = Command::new("timeout")
        .args(["60", "bash", "-c", script, "bash"])
        .arg(scripts().join("brokers"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("process group 17 is still there"), "{}", said(&output));
}

#[test]
fn a_peer_that_measured_no_second_has_no_rate() {
    let program = r#"
import sys
sys.dont_write_bytecode = True
sys.path[:0] = sys.argv[1:]
import json, measure, mqtt
for results in ({"received": 9, "samples": []}, {"received": 0, "samples": [0.0]}):
    printed = json.dumps({"results": results}, indent=1)
    measure.run = lambda command: measure.Process(printed, 1.0, 1.0, 1)
    peer = mqtt.Mqttv5("both", "host:1", 1, 500)
    try:
        peer.run(mqtt.Workload(9, 100, 1, "1", 0, 1, 1))
    except measure.PeerError as error:
        print(str(error).splitlines()[0])
"#;
    let output = Command::new("python3").args(["-c", program]).arg(scripts().join("peers.d")).output().unwrap();
    let line = "mqttv5 bench has no rate after 3 s: give it more messages (--messages). It printed:\n";
    assert_eq!(said(&output), line.repeat(2));
}
