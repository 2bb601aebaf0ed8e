//! Real Pulsar servers: the one that `scripts/test` starts, and further ones for tests that kill them.

use std::path::Path;
use std::process::Command;

/// `host:port` of the server that `scripts/test` starts.
pub fn address() -> String {
    variable("BROKERMARK_PULSAR")
}

/// Its admin interface.
pub fn admin() -> String {
    variable("BROKERMARK_PULSAR_ADMIN")
}

/// What `scripts/test` says of its servers. A test that needs them fails without them: it must not seem to have passed.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set, so there is no real Pulsar to test against: run `scripts/test`, which starts one, or leave \
             these tests out with `cargo test -- --skip real_`"
        )
    })
}

/// Calls the admin interface about a topic of `public/default`, as somebody else would: what it answers, if it does not
/// refuse.
pub fn call(method: &str, path: &str) -> Option<String> {
    let url = format!("{}/admin/v2/persistent/public/default/{path}", admin());
    let output = Command::new("curl")
        .args(["--silent", "--fail", "--max-time", "30", "--request", method, &url])
        .output()
        .expect("curl can be run");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

pub fn make_topic(name: &str) {
    assert!(call("PUT", name).is_some(), "{name} cannot be made");
}

pub fn remove_topic(name: &str) {
    assert!(call("DELETE", &format!("{name}?force=true")).is_some(), "{name} cannot be removed");
}

/// Whether a topic of that name is there.
pub fn has_topic(name: &str) -> bool {
    call("GET", "").is_some_and(|topics| topics.contains(&format!("\"persistent://public/default/{name}\"")))
}

/// A server of a test's own, to be killed at will.
pub struct Server {
    instance: String,
    port: u16,
}

impl Server {
    /// Starts one that listens on `port` and the two after it.
    pub fn start(instance: &str, port: u16) -> Self {
        address();
        let server = Server { instance: format!("test-{instance}"), port };
        server.control("up");
        server
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port + 2)
    }

    pub fn kill(&self) {
        self.control("kill");
    }

    /// Starts it again on the same data.
    pub fn restart(&self) {
        self.control("restart");
    }

    fn control(&self, command: &str) {
        let output = self.command(command).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn command(&self, command: &str) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/brokers");
        let mut process = Command::new(script);
        process
            .args([command, "pulsar"])
            .env("BROKERMARK_INSTANCE", &self.instance)
            .env("BROKERMARK_PULSAR_PORT", self.port.to_string())
            .env("BROKERMARK_PULSAR_WEB_PORT", (self.port + 2).to_string())
            .env("BROKERMARK_PULSAR_MEMORY", "-Xms256m -Xmx1g -XX:MaxDirectMemorySize=1g");
        process
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that has failed must not fail a second time here.
        let _ = self.command("down").output();
    }
}
