//! Where and how a trial ran: broker, machine, build.

use serde_json::Value;

use super::page::Page;
use crate::record::readable::{bytes, plain};
use crate::record::{BrokerSource, BrokerUsage, Record};

pub(super) fn place(page: &mut Page, record: &Record) {
    let environment = &record.environment;
    let broker = &record.scenario["broker"];
    let addresses = addresses(broker);
    let known = [
        Some(broker["kind"].as_str().unwrap_or("broker").to_owned()),
        (!addresses.is_empty()).then(|| format!("at {}", addresses.join(", "))),
        environment.broker.as_ref().map(|broker| format!("({broker})")),
        environment.client_library.as_ref().map(|client| format!("through {client}")),
    ];
    page.labelled("broker", &known.into_iter().flatten().collect::<Vec<_>>().join(" "));
    if record.durability.source.is_some() {
        page.labelled("durability", &record.durability.to_string());
    }
    let host = [
        environment.hostname.clone(),
        Some(match &environment.cpu_model {
            Some(model) => format!("{} × {model}", environment.cores),
            None => format!("{} cores", environment.cores),
        }),
        environment.memory_bytes.map(|memory| bytes(memory as f64)),
        Some(environment.operating_system.clone()),
        environment.kernel.as_ref().map(|kernel| format!("kernel {kernel}")),
    ];
    page.labelled("host", &host.into_iter().flatten().collect::<Vec<_>>().join(", "));
    let commit = environment.brokermark_commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
    page.labelled(
        "run",
        &format!(
            "{} by brokermark {}{commit}, {}",
            record.started_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
            environment.brokermark_version,
            record.run_id
        ),
    );
}

/// CPU and memory of the broker's processes, all together and each.
pub(super) fn broker_usage(usage: &BrokerUsage) -> String {
    let known = |cores: Option<String>, memory: Option<u64>| {
        let memory = memory.map(|amount| format!("{} at most", bytes(amount as f64)));
        let known: Vec<String> = cores.into_iter().chain(memory).collect();
        if known.is_empty() { "unknown".to_owned() } else { known.join(", ") }
    };
    let each = |source: &BrokerSource| match usage.sources.len() {
        1 => source.name.clone(),
        _ => {
            let cores = source.cores_used.map(|cores| format!("{cores:.2} cores"));
            format!("{} {}", source.name, known(cores, source.memory_bytes_max))
        }
    };
    let sources: Vec<String> = usage.sources.iter().map(each).collect();
    format!("{}: {}", known(usage.cores(), usage.memory_bytes_max), sources.join("; "))
}

/// As the scenario has them: `address` or `addresses`.
fn addresses(broker: &Value) -> Vec<String> {
    match (&broker["addresses"], &broker["address"]) {
        (Value::Array(addresses), _) => addresses.iter().map(plain).collect(),
        (Value::Null, Value::Null) => Vec::new(),
        (Value::Null, address) => vec![plain(address)],
        (address, _) => vec![plain(address)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_broker_s_use_is_shown_in_sum_and_by_source() {
        let source = |name: &str, cores_used| BrokerSource {
            name: name.to_owned(),
            cores_used,
            memory_bytes_max: cores_used.map(|_| 1 << 30),
            ..BrokerSource::default()
        };
        let mut usage = BrokerUsage {
            cores_used: Some(1.9),
            cores_of_machine: Some(2),
            memory_bytes_max: Some(1 << 30),
            sources: vec![source("process 7 (java)", Some(1.9))],
        };
        assert_eq!(broker_usage(&usage), "1.90 of 2 cores, 1.0 GiB at most: process 7 (java)");
        usage.sources.push(source("http://b/metrics", None));
        usage.cores_of_machine = None;
        assert_eq!(
            broker_usage(&usage),
            "1.90 cores, 1.0 GiB at most: process 7 (java) 1.90 cores, 1.0 GiB at most; http://b/metrics unknown"
        );
    }

    #[test]
    fn an_address_is_shown_whichever_key_it_was_given_by() {
        assert_eq!(addresses(&json!({ "address": "a:1" })), ["a:1"]);
        assert_eq!(addresses(&json!({ "addresses": ["a:1", "b:2"] })), ["a:1", "b:2"]);
        assert_eq!(addresses(&json!({ "kind": "null" })), [""; 0]);
    }
}
