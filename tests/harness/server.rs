//! Real servers: those that `scripts/test` starts, and further ones for tests that kill them.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A setting that `scripts/test` exports for its servers. A test that needs them fails without it, so that it cannot seem to pass.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set, so the test has no real server: run `scripts/test`, which starts one, or leave \
             these tests out with `cargo test -- --skip real_`"
        )
    })
}

/// What `scripts/brokers env` prints of a server as it runs now; a restart changes some of it.
fn current_variable(kind: &str, name: &str, environment: &[(String, String)]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/brokers");
    let mut shell = Command::new("bash");
    shell.args(["-c", "eval \"$(\"$0\" env \"$1\")\" && printf %s \"${!2}\""]).arg(script).args([kind, name]);
    let environment = environment.iter().map(|(name, value)| (name, value));
    let output = shell.envs(environment).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A server of a test's own, to be killed at will.
pub struct Server {
    kind: &'static str,
    port: u16,
    /// What `scripts/brokers` reads from the environment.
    environment: Vec<(String, String)>,
}

impl Server {
    /// Starts one by `scripts/brokers`, with further `settings` for it, and without data.
    pub fn start(kind: &'static str, instance: &str, port: u16, settings: &[(&str, &str)]) -> Self {
        let mut environment = vec![
            ("BROKERMARK_INSTANCE".to_owned(), format!("test-{instance}")),
            (format!("BROKERMARK_{}_PORT", kind.to_uppercase()), port.to_string()),
        ];
        // Without servers, this one is not wanted either.
        variable(&format!("BROKERMARK_{}", kind.to_uppercase()));
        environment.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let server = Server { kind, port, environment };
        // A run of the tests that was killed leaves its servers and their topics, which `up` would take for this one.
        server.control("down");
        server.control("up");
        server
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// One of the variables of `scripts/brokers env`.
    pub fn variable(&self, name: &str) -> String {
        current_variable(self.kind, name, &self.environment)
    }

    pub fn kill(&self) {
        self.control("kill");
    }

    /// Starts it again on the same data.
    pub fn restart(&self) {
        self.control("restart");
    }

    /// Lets it stand still for so long, with its connections open.
    pub fn stall(&self, fault: Duration) {
        self.control("freeze");
        let begin = Instant::now();
        super::eventually("the fault has lasted", || begin.elapsed() >= fault);
        self.control("thaw");
    }

    /// The id of its process.
    pub fn id(&self) -> libc::pid_t {
        let status = self.command("status").output().unwrap();
        let status = String::from_utf8(status.stdout).unwrap();
        let process = status.split("pid ").nth(1).and_then(|rest| rest.split_whitespace().next());
        process.and_then(|process| process.parse().ok()).unwrap_or_else(|| panic!("{status}"))
    }

    /// Sends its process a signal.
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: sends a signal to a process that this test has started.
        assert_eq!(unsafe { libc::kill(self.id(), signal) }, 0);
    }

    fn control(&self, command: &str) {
        let output = self.command(command).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn command(&self, command: &str) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/brokers");
        let mut process = Command::new(script);
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        process.args([command, self.kind]).envs(environment);
        process
    }
}

/// Makes `cert.pem` for `localhost` and 127.0.0.1, and its `key.pem`.
pub fn certify(folder: &Path) {
    let made = Command::new("openssl")
        .args(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost".split(' '),
        )
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that has failed must not fail a second time here.
        let _ = self.command("down").output();
    }
}
