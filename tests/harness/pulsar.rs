//! Real Pulsar servers: the one that `scripts/test` starts, and further ones for tests that kill them.

use std::process::Command;

use super::server::{Server, variable};

/// `host:port` of the server that `scripts/test` starts.
pub fn address() -> String {
    variable("BROKERMARK_PULSAR")
}

/// Its admin interface.
pub fn admin() -> String {
    variable("BROKERMARK_PULSAR_ADMIN")
}

/// Calls the admin interface about a topic of `public/default`, as somebody else would: what it answers, if it does not
/// refuse.
pub fn call(method: &str, path: &str) -> Option<String> {
    request(method, &format!("persistent/public/default/{path}"), "")
}

/// Calls the admin interface with a JSON value as its body: what it answers, if it does not refuse.
pub fn request(method: &str, path: &str, body: &str) -> Option<String> {
    request_at(&admin(), method, path, body)
}

/// As [`request`], of another server's admin interface.
pub fn request_at(admin: &str, method: &str, path: &str, body: &str) -> Option<String> {
    let url = format!("{admin}/admin/v2/{path}");
    let output = Command::new("curl")
        .args(["--silent", "--fail", "--max-time", "30", "--request", method])
        .args(["--header", "Content-Type: application/json", "--data", body, &url])
        .output()
        .expect("curl can be run");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A namespace of a test's own: its policies are in force before a topic of it is loaded, which a topic's policies need not be.
pub struct Namespace(String);

impl Namespace {
    pub fn make(name: &str) -> Self {
        let namespace = Self(format!("public/{name}"));
        assert!(request("PUT", &format!("namespaces/{namespace}"), "{}").is_some(), "{namespace} cannot be made");
        namespace
    }

    /// Sets a policy to a JSON value.
    pub fn set(&self, policy: &str, value: &str) {
        assert!(request("POST", &format!("namespaces/{self}/{policy}"), value).is_some(), "{policy} = {value}");
    }

    /// Its topics may still be on their way out.
    pub fn remove(self) {
        super::eventually("the namespace is removed", || {
            request("DELETE", &format!("namespaces/{self}"), "").is_some()
        });
    }
}

impl std::fmt::Display for Namespace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
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

/// A server of a test's own, which listens on `port` and the one after it, and for administrators on the second after.
pub fn server(instance: &str, port: u16) -> Server {
    let admin = admin_port(port).to_string();
    let memory = "-Xms256m -Xmx1g -XX:MaxDirectMemorySize=1g";
    let settings = [("BROKERMARK_PULSAR_WEB_PORT", admin.as_str()), ("BROKERMARK_PULSAR_MEMORY", memory)];
    Server::start("pulsar", instance, port, &settings)
}

/// The admin interface of a server of a test's own.
pub fn admin_of(server: &Server) -> String {
    format!("http://127.0.0.1:{}", admin_port(server.port()))
}

fn admin_port(port: u16) -> u16 {
    port + 2
}
