//! What the shares of a run have in common: the scenario, the build, the run, and what an acknowledgement meant.

use serde_json::Value;

use super::{KeptShare, MergeError};
use crate::record::Durability;

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
            of_value("", &left.scenario, &right.scenario).map(|(path, a, b)| (format!("the scenario's `{path}`"), a, b))
        })
        .or_else(|| of_text("the number of shares", count(one), count(other)))
        .or_else(|| of_text("the run", left.run_id.clone(), right.run_id.clone()))
}

/// The first place at which two documents differ, with both values.
fn of_value(path: &str, left: &Value, right: &Value) -> Option<(String, String, String)> {
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
        of_value(&join(key), left_table.get(key).unwrap_or(&absent), right_table.get(key).unwrap_or(&absent))
    })
    .find(Option::is_some)
    .flatten()
}
