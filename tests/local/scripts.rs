//! Scripts beside the program: what they say where they cannot do what they are asked.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
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

/// What a program that uses the modules of `compare-peers` says.
fn said_by(program: &str) -> String {
    let begin = "import sys\nsys.dont_write_bytecode = True\nsys.path[:0] = sys.argv[1:]";
    let mut python = Command::new("python3");
    python.args(["-c", &format!("{begin}{program}")]).arg(scripts().join("peers.d"));
    said(&python.output().expect("python3 cannot be run: the scripts need it"))
}

#[test]
fn a_peer_that_measured_no_second_has_no_rate() {
    let program = r#"
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
    let line = "mqttv5 bench has no rate after 3 s: give it more messages (--messages). It printed:\n";
    assert_eq!(said_by(program), line.repeat(2));
}

/// Its rate would be of the messages that did arrive.
#[test]
fn a_run_of_brokermark_that_lost_messages_is_not_compared() {
    let program = r#"
import measure
from brokermark import BrokermarkBoth
from comparison import Workload
rate = {"messages_per_second": 7.0}
for lost, unread in ((0, 0), (1, 0), (0, 1)):
    record = {"counts": {"acknowledged": 9}, "throughput": {"until_last_acknowledgement": rate, "until_last_arrival": rate}}
    record["verification"] = {"lost": lost, "unread": unread, "corrupt": 0}
    ours = BrokermarkBoth("scenario.toml", {})
    ours.record = lambda scenario, settings: (record, measure.Process("", 1.0, 1.0, 1))
    try:
        print(ours.run(Workload(9, 100, 1, "1", 0, 1, 1))[0])
    except measure.PeerError as error:
        print(str(error).partition(":")[0])
"#;
    let line = "brokermark did not receive all of 9 messages\n";
    assert_eq!(said_by(program), format!("7.0\n{line}{line}"));
}

/// bench_writer writes more than bench_reader reads: 3 s for 3,000,000 messages, and 2 s for 1,000,000.
#[test]
fn each_program_of_nsq_costs_the_messages_that_it_had_itself() {
    let program = r#"
import contextlib, measure, nsq
def run(command):
    assert command[:2] == ["env", f"GOMAXPROCS={nsq.CONNECTIONS}"], command
    name = command[2].removeprefix("programs/")
    rate, cpu_seconds = {"bench_writer": (300000, 3.0), "bench_reader": (100000, 2.0)}[name]
    return measure.Process(f"[{name}] 2026/11/28 00:00:58 duration: 10s - 9.5mb/s - {rate}.000ops/s - 1.0us/op\n", 10.0, cpu_seconds, 1)
measure.run = run
for side in ("writer", "both"):
    peer = nsq.Bench(side, "host:1", "host:2", "programs")
    peer.topic = lambda: contextlib.nullcontext("topic")
    rate, printed, process = peer.run(nsq.Workload(1000000, 100, 1, "1", 0, 1, 1))
    print(rate, process.cpu_seconds, len(printed.splitlines()))
"#;
    assert_eq!(said_by(program), "300000.0 1.0 1\n100000.0 3.0 2\n");
}

/// The server counts the messages; who looks again only at the end sees them all come with the end of the JVM.
#[test]
fn a_peer_on_pulsar_whose_messages_could_not_be_watched_has_no_rate() {
    let program = r#"
import contextlib, json, measure, pulsar, threading
failed = threading.Event()
class Topics:
    looks = 0
    def new(self):
        return contextlib.nullcontext("topic")
    def call(self, method, path):
        self.looks += 1
        if self.looks == 2:
            failed.set()
            raise OSError("timed out")
        return json.dumps({"msgInCounter": min(9, self.looks ** 2)})
def run(command):
    failed.wait()
    return measure.Process("", 1.0, 1.0, 1)
measure.run = run
try:
    print(pulsar.PulsarPerf("host:1", Topics(), "home").run(pulsar.Workload(9, 100, 1, "all", 1, 1, 1)))
except measure.PeerError as error:
    print(error)
"#;
    assert_eq!(said_by(program), "the arrival of pulsar-perf produce's messages could not be watched: timed out\n");
}

/// A copy of `scripts/brokers` that knows one server, `small`: a process that sleeps. `definition` replaces parts of its file.
struct Brokers {
    folder: tempfile::TempDir,
}

impl Brokers {
    fn of(definition: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for script in ["brokers", "packages"] {
            fs::copy(scripts().join(script), folder.path().join(script)).unwrap();
        }
        let small = "version() { echo 1; }\ndefault_port() { echo 1; }\nports() { :; }\ninstall() { :; }\nprepare() { :; }\n\
                     launch() { SERVER_COMMAND=(sleep 60); }\nready() { :; }\nenvironment() { :; }\n";
        fs::create_dir(folder.path().join("brokers.d")).unwrap();
        fs::write(folder.path().join("brokers.d/small"), format!("{small}{definition}")).unwrap();
        Brokers { folder }
    }

    /// In a process group of its own, which `kill 0` of the file is about.
    fn run(&self, command: &str) -> Output {
        let folder = self.folder.path();
        let mut script = Command::new("bash");
        script.arg(folder.join("brokers")).args([command, "small"]).process_group(0);
        script.envs(["XDG_RUNTIME_DIR", "BROKERMARK_DATA", "BROKERMARK_CACHE"].map(|name| (name, folder)));
        script.env_remove("BROKERMARK_INSTANCE").output().unwrap()
    }
}

/// The folder is not taken for a whole one: the server would never start on it.
#[test]
fn brokers_prepares_a_folder_again_whose_preparation_was_interrupted() {
    let brokers = Brokers::of(
        "prepare() { touch \"$data/half\"; [[ -e $here/goes_on ]] || kill -KILL 0; rm \"$data/half\"; }\n\
         launch() { SERVER_COMMAND=(bash -c '[[ ! -e $1/half ]] && exec sleep 60' small \"$data\"); }\n\
         ready() { [[ ! -e $data/half ]]; }\n",
    );
    let interrupted = brokers.run("up");
    assert_eq!(interrupted.status.signal(), Some(9), "{}", said(&interrupted));
    fs::write(brokers.folder.path().join("goes_on"), "").unwrap();
    let up = brokers.run("up");
    let names = fs::read_dir(brokers.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let folders = names.filter(|name| name.to_string_lossy().starts_with("brokermark-small-")).count();
    let down = brokers.run("down");
    assert!(up.status.success() && down.status.success(), "{}{}", said(&up), said(&down));
    assert_eq!(folders, 1, "the half-made one is gone");
}

/// Another instance may have a network of that name.
#[test]
fn brokers_releases_nothing_of_a_server_that_was_never_up() {
    let brokers = Brokers::of("release() { touch \"$here/released\"; }\n");
    let released = brokers.folder.path().join("released");
    let down = brokers.run("down");
    assert!(down.status.success() && !released.exists(), "{}", said(&down));
    let (up, down) = (brokers.run("up"), brokers.run("down"));
    assert!(up.status.success() && down.status.success(), "{}{}", said(&up), said(&down));
    assert!(released.exists());
}

#[test]
fn brokers_does_not_take_another_server_on_the_port_for_its_own() {
    // What answers there goes on doing so when this one has ended.
    let brokers = Brokers::of("launch() { SERVER_COMMAND=(true); }\nready() { while running; do sleep 0.1; done; }\n");
    let up = brokers.run("up");
    assert_eq!(up.status.code(), Some(1), "{}", said(&up));
    assert!(said(&up).contains("does not answer"), "{}", said(&up));
}

/// It would start in the network of the other one, and take it down at its end.
#[test]
fn brokers_starts_no_node_in_the_network_of_another_instance() {
    let script = r#"
source "$1"
die() { echo "$*"; exit 1; }
id() { echo 0; }
require() { :; }
ip() { [[ $* != "netns pids brokermark-192-1" ]] || echo "$others"; }
kind=kafka-cluster server=kafka-cluster-1 data= node=1 port=19192 port_variable=BROKERMARK_KAFKA_CLUSTER_PORT
locate
others='' require_network && echo free
others=4711
require_network
"#;
    let output = Command::new("bash").args(["-c", script, "bash"]).arg(scripts().join("cluster")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = said(&output);
    assert!(text.starts_with("free\nkafka-cluster-1: in its network, 198.18.192.0/24"), "{text}");
    assert!(text.contains("BROKERMARK_KAFKA_CLUSTER_PORT="), "{text}");
}

/// Where two checkouts begin at once, the second one waits.
#[test]
fn packages_are_installed_by_one_call_at_a_time() {
    let script = r#"
source "$1"
cache=$2
id() { echo 0; }
# As the real one does where another one reads the lists.
apt-get() { mkdir "$cache/busy" 2>/dev/null || { touch "$cache/refused"; return 100; }; sleep 0.1; rmdir "$cache/busy"; }
for package in a b c; do install_packages "$package" & done
wait
[[ ! -e $cache/refused ]]
"#;
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(scripts().join("packages")).arg(cache.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

/// Its data would be in the installation, and stay there.
#[test]
fn rabbitmq_does_not_start_without_its_own_data_folder() {
    let script = r#"
source "$1"
cache=$2 data=$2 port=1
printf '#!/bin/sh\nexit 1\n' >"$2/mount"
printf '#!/bin/sh\necho started\n' >"$2/chroot"
chmod +x "$2/mount" "$2/chroot"
run_rabbitmq
[[ ${SERVER_COMMAND[6]} == bash ]] || exit 3
PATH=$2:$PATH
"${SERVER_COMMAND[@]:6}"
"#;
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(scripts().join("brokers.d/rabbitmq")).arg(folder.path());
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(1), ""));
}
