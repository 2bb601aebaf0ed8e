//! The JSON lines of "Apache Pulsar Throughput Test Result", by its own program's field names and meanings: `MsgLength`
//! is the *number* of messages, `SpeedInCounter` messages per second, `SpeedInBytes` payload bytes per second, and the
//! duration is cut off to whole milliseconds. Its clock ran from the first send to the last acknowledgement.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ExportError;
use crate::record::Record;
use crate::scenario::tables::PayloadKind;

/// Bytes of one vector element.
const ELEMENT_BYTES: u64 = 4;

/// A line, its fields in the order of the published program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    topic_num: u64,
    producer_num: u64,
    vector_dim: u64,
    msg_length: u64,
    duration_in_milliseconds: u64,
    speed_in_counter: f64,
    speed_in_bytes: f64,
}

/// A point's repetitions, as a later version of the published program printed them: the mean, and whole rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Summary {
    trials: usize,
    mean: Row,
    /// With the highest `SpeedInBytes`.
    max: Row,
    /// With the lowest.
    min: Row,
}

/// One line per record.
pub fn lines(records: &[&Record]) -> Result<String, ExportError> {
    records.iter().map(|record| row(record).map(|row| line(&row))).collect()
}

/// One line per point.
pub fn summary(records: &[&Record]) -> Result<String, ExportError> {
    let mut points: BTreeMap<usize, Vec<Row>> = BTreeMap::new();
    for record in records {
        points.entry(record.point_index).or_default().push(row(record)?);
    }
    Ok(points.values().filter_map(|rows| summarize(rows)).map(|summary| line(&summary)).collect())
}

fn row(record: &Record) -> Result<Row, ExportError> {
    let tables = record.tables();
    let lacks = |what, advice| ExportError::Lacks { point: record.point_index, trial: record.trial, what, advice };
    let is_vector = tables.payload.kind == PayloadKind::Vector;
    let dimension = tables.payload.dimension.map(|dimension| dimension.0).filter(|_| is_vector);
    let vector_dim = dimension.ok_or_else(|| lacks("vector dimension", "run it with `payload.kind = \"vector\"`"))?;
    let seconds = record.throughput.completion_ns() as f64 / 1e9;
    if seconds == 0.0 {
        return Err(lacks("duration", "nothing was acknowledged"));
    }
    let count = record.counts.acknowledged;
    Ok(Row {
        topic_num: tables.topology.topics.0,
        producer_num: tables.producers.count.0,
        vector_dim,
        msg_length: count,
        duration_in_milliseconds: record.throughput.completion_ns() / 1_000_000,
        speed_in_counter: count as f64 / seconds,
        speed_in_bytes: (count * vector_dim * ELEMENT_BYTES) as f64 / seconds,
    })
}

fn summarize(rows: &[Row]) -> Option<Summary> {
    let by_rate = |one: &&Row, other: &&Row| one.speed_in_bytes.total_cmp(&other.speed_in_bytes);
    let (max, min) = (rows.iter().max_by(by_rate)?, rows.iter().min_by(by_rate)?);
    let whole = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>() / rows.len() as u64;
    let real = |of: fn(&Row) -> f64| rows.iter().map(of).sum::<f64>() / rows.len() as f64;
    let mean = Row {
        msg_length: whole(|row| row.msg_length),
        duration_in_milliseconds: whole(|row| row.duration_in_milliseconds),
        speed_in_counter: real(|row| row.speed_in_counter),
        speed_in_bytes: real(|row| row.speed_in_bytes),
        ..*max
    };
    Some(Summary { trials: rows.len(), mean, max: *max, min: *min })
}

/// Numbers and fixed names always serialise.
fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;
    use serde_json::json;

    fn record(point_index: usize, trial: u32, duration_ns: u64) -> Record {
        let mut record = sample::record();
        (record.point_index, record.trial) = (point_index, trial);
        record.counts.acknowledged = 1_048_576;
        record.throughput.window_ns = duration_ns;
        record.throughput.until_last_acknowledgement = None;
        record.scenario = json!({
            "topology": { "topics": 4 }, "producers": { "count": 512 }, "payload": { "kind": "vector", "dimension": 512 },
        });
        record
    }

    #[test]
    fn a_line_is_the_seeds() {
        // 2 GiB in 16 s.
        let record = record(0, 1, 16_000_999_999);
        let expected = "{\"TopicNum\":4,\"ProducerNum\":512,\"VectorDim\":512,\"MsgLength\":1048576,\
                        \"DurationInMilliseconds\":16000,\"SpeedInCounter\":65531.90";
        let line = lines(&[&record]).unwrap();
        assert!(line.starts_with(expected) && line.ends_with("}\n"), "{line}");
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        let bytes = parsed["SpeedInBytes"].as_f64().unwrap();
        assert!((bytes / parsed["SpeedInCounter"].as_f64().unwrap() - 2048.0).abs() < 1e-9);
    }

    #[test]
    fn repetitions_become_mean_highest_and_lowest() {
        let records = [record(0, 1, 10_000_000_000), record(1, 1, 1_000_000_000), record(0, 2, 20_000_000_000)];
        let text = summary(&records.iter().collect::<Vec<_>>()).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((text.lines().count(), &first["Trials"]), (2, &json!(2)));
        assert_eq!(first["Max"]["DurationInMilliseconds"], 10_000);
        assert_eq!(first["Min"]["DurationInMilliseconds"], 20_000);
        assert_eq!(first["Mean"]["SpeedInCounter"], (104_857.6 + 52_428.8) / 2.0);
    }

    #[test]
    fn other_payloads_than_vectors_are_refused() {
        let mut record = record(3, 2, 1);
        record.scenario["payload"] = json!({ "kind": "zeros" });
        let error = lines(&[&record]).unwrap_err().to_string();
        assert!(error.contains("trial 2 of point 3"), "{error}");
    }
}
