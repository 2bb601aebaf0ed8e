//! The versions and the machine of a trial, for its record.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::broker::BrokerInfo;
use crate::measure::host::{cores_available, kibibytes};
use crate::record::Environment;
use crate::secrets::mask_arguments;

/// Everything that is known of this build, this machine and, if there was a connection, of the client and the broker.
///
/// `arguments` are those of the process; secrets in them are masked.
pub fn environment(arguments: impl IntoIterator<Item = String>, identity: Option<&BrokerInfo>) -> Environment {
    Environment {
        brokermark_version: env!("CARGO_PKG_VERSION").to_owned(),
        brokermark_commit: option_env!("BROKERMARK_COMMIT").map(str::to_owned),
        rust_compiler: option_env!("BROKERMARK_RUST_COMPILER").map(str::to_owned),
        debug_build: cfg!(debug_assertions),
        client_library: identity.map(|identity| identity.client.clone()),
        broker: identity.and_then(|identity| identity.broker.clone()),
        embedded: identity.is_some_and(|identity| identity.embedded),
        operating_system: operating_system(),
        kernel: line("/proc/sys/kernel/osrelease"),
        cpu_model: fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(cpu_model),
        cores: fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(cores).unwrap_or_else(cores_available),
        physical_cores: physical_cores(Path::new("/sys/devices/system/cpu")),
        memory_bytes: fs::read_to_string("/proc/meminfo")
            .ok()
            .and_then(|text| kibibytes(&text, "MemTotal:"))
            .map(|kibibytes| kibibytes * 1024),
        hostname: line("/proc/sys/kernel/hostname").or_else(|| std::env::var("HOSTNAME").ok()),
        command_line: mask_arguments(arguments),
    }
}

/// Hardware threads of one core have the same list of siblings (kernel documentation, admin-guide/cputopology).
fn physical_cores(directory: &Path) -> Option<usize> {
    let siblings = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("topology/thread_siblings_list")).ok();
    let lists: BTreeSet<String> = fs::read_dir(directory).ok()?.flatten().filter_map(siblings).collect();
    (!lists.is_empty()).then_some(lists.len())
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn operating_system() -> String {
    let release = fs::read_to_string("/etc/os-release").ok();
    release.as_deref().and_then(pretty_name).unwrap_or_else(|| std::env::consts::OS.to_owned())
}

fn pretty_name(release: &str) -> Option<String> {
    let value = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

/// x86 has `model name` for every core, some boards a single `Model`.
fn cpu_model(text: &str) -> Option<String> {
    let value =
        |wanted: &str| text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == wanted);
    value("model name").or_else(|| value("Model")).map(|(_, model)| model.trim().to_owned())
}

fn cores(text: &str) -> Option<usize> {
    let cores =
        text.lines().filter(|line| line.split(':').next().is_some_and(|name| name.trim() == "processor")).count();
    (cores > 0).then_some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_own_files_are_understood() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n\nprocessor\t: 1\nmodel name\t: Some CPU @ 3 GHz\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Some CPU @ 3 GHz"));
        assert_eq!((cores(cpuinfo), cores("")), (Some(2), None));
        assert_eq!(pretty_name("ID=x\nPRETTY_NAME=\"Some Linux 1\"\n").as_deref(), Some("Some Linux 1"));
    }

    #[test]
    fn an_environment_names_build_and_machine() {
        let identity = BrokerInfo { client: "client 1".into(), broker: None, embedded: true };
        let environment = environment(["brokermark".to_owned()], Some(&identity));
        assert_eq!(environment.brokermark_version, env!("CARGO_PKG_VERSION"));
        assert!(environment.embedded && environment.debug_build && environment.cores > 0);
        assert!(!environment.operating_system.is_empty());
    }
}
