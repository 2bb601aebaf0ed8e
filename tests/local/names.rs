//! A name that has two addresses, of which the first is silent. The name is in a file of hosts that only the tested program sees.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::{Bench, PATIENCE, Running, assert_acknowledged, brokermark};

/// The system sorts the addresses of a name (RFC 6724): this one comes first.
const SILENT: &str = "127.0.0.1";
const ANSWERING: &str = "127.0.0.2";

/// Listens there, and leaves all connections unanswered until it is dropped: the queue of the socket is full.
struct Silent {
    _listener: TcpListener,
    _first: TcpStream,
}

impl Silent {
    fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        // SAFETY: the descriptor is open; listening again only sets the length of the queue.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let first = TcpStream::connect(address).unwrap();
        let silence = TcpStream::connect_timeout(&address, Duration::from_millis(100));
        assert!(silence.is_err(), "the queue takes more than one connection");
        Silent { _listener: listener, _first: first }
    }
}

/// An endpoint in a process of its own, which ends with its test.
struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program, for which `hosts` are the names of the system.
fn with_hosts(bench: &Bench, hosts: &str) -> Command {
    let file = bench.write("hosts", hosts);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""]);
    command.arg(file).arg(brokermark().get_program()).env("NO_COLOR", "1").env("COLUMNS", "200");
    command
}

#[test]
#[expect(clippy::print_stderr, reason = "a test may say what it could not test")]
fn a_silent_address_of_a_name_is_passed() {
    let mut emulator = brokermark();
    emulator.args(["emulate", "sls", "--listen", &format!("{ANSWERING}:0")]);
    let mut emulator = Emulator(emulator.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(emulator.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address: SocketAddr = line.trim().parse().unwrap_or_else(|error| panic!("{error}: {line}"));
    let _silent = Silent::at(SocketAddr::new(SILENT.parse().unwrap(), address.port()));

    let scenario = format!(
        "broker = {{ kind = \"sls\", address = \"bm.test:{}\", sls = {{ project = \"p\", access_key_id = \"brokermark\", access_key_secret = \"brokermark\" }} }}
        load.rate = \"100/s\"
        payload.size = \"64B\"
        run = {{ messages = 50, warm_up = \"100ms\" }}",
        address.port()
    );
    let bench = Bench::new(&scenario);
    let hosts = format!("{SILENT} p.bm.test\n{ANSWERING} p.bm.test\n{SILENT} bm.test\n{ANSWERING} bm.test\n");
    let mut check = with_hosts(&bench, &hosts);
    if !check.arg("--version").output().is_ok_and(|ended| ended.status.success()) {
        eprintln!("this system gives no user file systems of their own: not tested");
        return;
    }
    let mut run = with_hosts(&bench, &hosts);
    run.arg("run").arg(bench.scenario()).args(["--json", "--quiet", "--output"]).arg(bench.results());
    let ran = Running::start(&mut run).finish(PATIENCE);
    let mut doctor = with_hosts(&bench, &hosts);
    doctor.arg("doctor").arg(bench.scenario());
    let examined = Running::start(&mut doctor).finish(PATIENCE);
    assert_acknowledged(&ran.expect(0).record(), 50);
    examined.says(&["! address", &format!("({SILENT}:{}:", address.port())]);
}
