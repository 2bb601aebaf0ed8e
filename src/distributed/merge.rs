//! The record of all shares, from what each of them kept, and what they must have in common: the scenario, the build, the run, and what an
//! acknowledgement meant.

use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;

use super::client::{self, SharedMachine};
use super::{KeptShare, MergeError, conditions, sections, series, verdict};
use crate::evaluate;
use crate::record::{Durability, LostRank, MergedShare, Record, SeriesRow, Status, Together};
use crate::scenario::{Kinds, Scenario, parse_for};

/// One run of all shares.
#[derive(Debug, Clone)]
pub struct Merged {
    pub record: Record,
    pub series: Vec<SeriesRow>,
    pub interval_log: String,
    /// The scenario that all shares ran, as far as a record is judged by it.
    pub scenario: Scenario,
}

/// Puts shares together. `lost`: ranks of an MPI job that were to run shares too. `kinds`: the brokers of this build, which must have run
/// them.
///
/// # Errors
/// When they are not shares of one run, or one cannot be read.
pub fn merge(shares: Vec<KeptShare>, lost: Vec<LostRank>, kinds: Kinds<'_>) -> Result<Merged, MergeError> {
    let shares = agree(shares)?;
    let scenario = scenario(&shares[0], kinds)?;
    let series = series::merged_series(&shares);
    let mut record = Record { lost_ranks: lost, ..record(&shares)? };
    evaluate::evaluate(&mut record, &scenario, &series);
    verdict::complete(&mut record, &shares, &SharedMachine::all(&shares, &scenario));
    let logs: Vec<&str> = shares.iter().map(|share| share.interval_log.as_str()).collect();
    Ok(Merged { record, series, interval_log: series::merged_logs(&logs), scenario })
}

/// The figures, without a verdict.
fn record(shares: &[KeptShare]) -> Result<Record, MergeError> {
    let counts = sections::counts(shares);
    let mut throughput = sections::throughput(shares, &counts);
    let latency = sections::latencies(shares)?;
    throughput.in_flight_by_littles_law = latency.service.as_ref().map(|service| throughput.in_flight(service.mean_ns));
    let acknowledged_inside = throughput.messages_per_second * throughput.window_ns as f64 / 1e9;
    let client = client::client(shares, acknowledged_inside);
    let worst = shares.iter().map(|share| share.record.status).max_by_key(|status| rank(*status));
    let hostnames =
        shares.iter().all(|share| share.record.environment.hostname == shares[0].record.environment.hostname);
    let mut record = Record {
        status: worst.unwrap_or(Status::Failed),
        error: shares
            .iter()
            .find_map(|share| Some(format!("share {}: {}", share.number(), share.record.error.as_ref()?))),
        started_at: shares.iter().map(|share| share.record.started_at).min().unwrap_or(Timestamp::UNIX_EPOCH),
        parts: sections::parts(shares)?,
        outages: Vec::new(),
        faults: sections::faults(shares),
        conditions: conditions::merged_conditions(shares),
        errors: sections::errors(shares, |record| &record.errors),
        receive_errors: sections::errors(shares, |record| &record.receive_errors),
        verification: sections::verification(shares)?,
        // Percentiles of shares do not give those of all.
        partitions: None,
        consumers: sections::consumers(shares),
        idle_connections: sections::idle_connections(shares)?,
        transactions: sections::transactions(shares)?,
        consumer_answers: sections::consumer_answers(shares),
        wire: sections::wire(shares, &throughput, client.cpu_seconds),
        host_load: client::host_load(shares),
        start: shares.iter().filter_map(|share| share.record.start.clone()).max_by_key(|start| start.late_ns),
        share: None,
        shares: shares.iter().filter_map(merged_share).collect(),
        together: Some(Together {
            window_overlap: sections::overlap(shares),
            start_skew_ns: sections::start_skew_ns(shares),
        }),
        counts,
        throughput,
        latency,
        client,
        ..shares[0].record.clone()
    };
    record.environment.hostname = record.environment.hostname.filter(|_| hostnames);
    // What one share was not told is not known of all messages.
    if shares.iter().any(|share| share.record.durability == Durability::default()) {
        record.durability = Durability::default();
    }
    Ok(record)
}

/// The worst of several counts.
fn rank(status: Status) -> u8 {
    match status {
        Status::Completed => 0,
        Status::Interrupted => 1,
        Status::Stalled => 2,
        Status::Running => 3,
        Status::Failed => 4,
    }
}

fn merged_share(kept: &KeptShare) -> Option<MergedShare> {
    let record = &kept.record;
    Some(MergedShare {
        share: record.share.clone()?,
        start: record.start.clone(),
        hostname: record.environment.hostname.clone(),
        window_ns: record.throughput.window_ns,
        messages_per_second: record.throughput.messages_per_second,
        cores_used: record.client.cores_used,
        valid: record.verdict.valid,
        clock: kept.clock,
    })
}

/// The scenario as far as a record is judged by it. Its files need not be on the machine that merges: payloads and certificates are left
/// out.
fn scenario(share: &KeptShare, kinds: Kinds<'_>) -> Result<Scenario, MergeError> {
    let unreadable = |reason: String| MergeError::Scenario { origin: share.origin.clone(), reason };
    let mut document = share.record.scenario.clone();
    if let Some(table) = document.as_object_mut() {
        table.remove("payload");
        if let Some(broker) = table.get_mut("broker").and_then(Value::as_object_mut) {
            broker.remove("security");
        }
    }
    let text = toml::to_string(&document).map_err(|error| unreadable(error.to_string()))?;
    let plan =
        parse_for(kinds, &text, &share.origin, &[], Path::new("")).map_err(|error| unreadable(error.to_string()))?;
    let trial = plan.trials.into_iter().next().ok_or_else(|| unreadable("it has no trial".to_owned()))?;
    Ok(trial.scenario)
}

#[cfg(test)]
#[path = "../../tests/unit/distributed/made_up.rs"]
pub(super) mod made_up;

/// Sorts the shares by their numbers.
///
/// # Errors
/// When one is not a share, is there twice, or differs from the others in what all must have in common.
pub(super) fn agree(mut shares: Vec<KeptShare>) -> Result<Vec<KeptShare>, MergeError> {
    if let Some(other) = shares.iter().find(|share| share.record.share.is_none()) {
        return Err(MergeError::NotAShare { origin: other.origin.clone() });
    }
    shares.sort_by_key(KeptShare::number);
    for pair in shares.windows(2) {
        let [one, other] = pair else { continue };
        if one.number() == other.number() {
            let (one_origin, other) = (one.origin.clone(), other.origin.clone());
            return Err(MergeError::Twice { number: one.number(), one: one_origin, other });
        }
        if let Some((what, left, right)) = difference(one, other) {
            let (one, other) = (one.origin.clone(), other.origin.clone());
            return Err(MergeError::Differ { one, other, what, left, right });
        }
    }
    agree_in_durability(&shares)?;
    Ok(shares)
}

/// A broker under load may answer one share and not another in time. Those that were answered were told the same.
fn agree_in_durability(shares: &[KeptShare]) -> Result<(), MergeError> {
    let text = |share: &KeptShare| share.record.durability.to_string();
    let told: Vec<&KeptShare> =
        shares.iter().filter(|share| share.record.durability != Durability::default()).collect();
    let differing = told.windows(2).find(|pair| text(pair[0]) != text(pair[1]));
    differing.map_or(Ok(()), |pair| {
        let (one, other) = (pair[0].origin.clone(), pair[1].origin.clone());
        let [left, right] = [pair[0], pair[1]].map(text);
        Err(MergeError::Differ { one, other, what: "durability".to_owned(), left, right })
    })
}

/// What differs, and the value of either side.
fn difference(one: &KeptShare, other: &KeptShare) -> Option<(String, String, String)> {
    let (left, right) = (&one.record, &other.record);
    let count = |share: &KeptShare| share.record.share.as_ref().map_or(0, |share| share.count).to_string();
    let of_text = |what: &str, left: String, right: String| (left != right).then(|| (what.to_owned(), left, right));
    of_text("the build", left.environment.build(), right.environment.build())
        .or_else(|| {
            value_difference("", &left.scenario, &right.scenario)
                .map(|(path, a, b)| (format!("the scenario's `{path}`"), a, b))
        })
        .or_else(|| of_text("the number of shares", count(one), count(other)))
        .or_else(|| of_text("the run", left.run_id.clone(), right.run_id.clone()))
}

/// The first place at which two documents differ, with both values.
fn value_difference(path: &str, left: &Value, right: &Value) -> Option<(String, String, String)> {
    if left == right {
        return None;
    }
    let (Value::Object(left_table), Value::Object(right_table)) = (left, right) else {
        return Some((path.to_owned(), left.to_string(), right.to_string()));
    };
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let absent = Value::String("absent".to_owned());
    let keys = left_table.keys().chain(right_table.keys().filter(|key| !left_table.contains_key(*key)));
    keys.map(|key| {
        value_difference(&join(key), left_table.get(key).unwrap_or(&absent), right_table.get(key).unwrap_or(&absent))
    })
    .find(Option::is_some)
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::made_up::share;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn refusal(spoil: impl FnOnce(&mut [KeptShare])) -> String {
        let mut shares = vec![share(2, 2, 0, SECOND, 1.0), share(1, 2, 0, SECOND, 1.0)];
        spoil(&mut shares);
        agree(shares).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn only_shares_of_one_run_are_merged_and_what_differs_is_named() {
        let scenario = refusal(|shares| shares[0].record.scenario["producers"]["count"] = 99.into());
        assert!(scenario.contains("share-1 and share-2 differ in the scenario's `producers"), "{scenario}");
        assert!(scenario.contains("99"), "{scenario}");
        let build = refusal(|shares| shares[0].record.environment.brokermark_version = "9.9.9".to_owned());
        assert!(build.contains("differ in the build") && build.contains("9.9.9"), "{build}");
        let run = refusal(|shares| shares[0].record.run_id = "another".to_owned());
        assert!(run.contains("differ in the run"), "{run}");
        let twice = refusal(|shares| shares[0].record.share = shares[1].record.share.clone());
        assert!(twice.contains("are both share 1"), "{twice}");
        let whole = refusal(|shares| shares[0].record.share = None);
        assert!(whole.contains("is not the record of a share"), "{whole}");
    }

    #[test]
    fn durability_unknown_to_one_share_is_unknown() {
        let mut shares: Vec<KeptShare> = (1..=3).map(|number| share(number, 3, 0, SECOND, 1.0)).collect();
        assert_ne!(shares[0].record.durability, Durability::default());
        shares[1].record.durability = Durability::default();
        let merged = record(&agree(shares.clone()).unwrap()).unwrap();
        assert_eq!(merged.durability, Durability::default());
        shares[2].record.durability.copies = Some(77);
        let error = agree(shares).unwrap_err().to_string();
        assert!(error.contains("share-1 and share-3 differ in durability") && error.contains("77"), "{error}");
    }

    #[test]
    fn the_scenario_of_a_share_is_read_without_its_files() {
        let mut share = share(1, 1, 0, SECOND, 1.0);
        let text = r#"{"name": "x", "broker": {"kind": "null", "security": {"tls": {"ca": "/no/such/file"}}},
            "payload": {"content": "lines", "file": "/no/such/file"}, "run": {"messages": 5}, "thresholds": {"require": ["failed = 0"]}}"#;
        share.record.scenario = serde_json::from_str(text).unwrap();
        let scenario = scenario(&share, crate::engine::kinds()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(scenario.thresholds.len(), 1);
    }
}
