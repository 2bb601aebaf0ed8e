//! `[consumers]`: who receives, and what is made of what they receive. Without the table, nobody does.

use super::{Context, properties};
use crate::scenario::fields::Fields;
use crate::scenario::{Consumers, StartFrom, keys};

const MOST: usize = 100_000;

pub(super) fn read(root: &Fields<'_>, context: &Context<'_>) -> Option<Consumers> {
    let fields = root.get("consumers")?.fields(&keys::CONSUMERS)?;
    let amount = |key: &str| fields.get(key).and_then(|field| field.amount(1, MOST)).unwrap_or(1);
    let flag = |key: &str| fields.get(key).and_then(|field| field.boolean()).unwrap_or(true);
    let starts = [("earliest", StartFrom::Earliest), ("latest", StartFrom::Latest)];
    Some(Consumers {
        groups: amount("groups"),
        members: amount("members"),
        from: fields.get("from").and_then(|field| field.one_of(&starts)).unwrap_or(StartFrom::Earliest),
        end_to_end: flag("end_to_end"),
        verify: flag("verify"),
        properties: fields.get("properties").map(|field| properties::read(&field, context)).unwrap_or_default(),
    })
}
