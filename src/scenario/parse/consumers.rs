//! `[consumers]`: the consumers, and what they record and verify. Without the table nothing is consumed, except by the
//! instances of a pipeline, which are consumers: for them the table adds settings.

use super::{Context, properties};
use crate::scenario::fields::Fields;
use crate::scenario::path::KeyPath;
use crate::scenario::{Consumers, Pipeline, ProducerMode, StartFrom};

pub(super) const KEYS: &[&str] = &["groups", "members", "from", "end_to_end", "verify", "properties"];

const MOST: usize = 100_000;

pub(super) fn read(root: &Fields<'_>, context: &Context<'_>, pipeline: Option<&Pipeline>) -> Option<Consumers> {
    let empty = toml::Table::new();
    let fields = match (root.get("consumers"), pipeline) {
        (Some(field), _) => field.fields(KEYS)?,
        (None, Some(_)) => Fields::new(&empty, KeyPath::of(&["consumers"]), root.problems, KEYS),
        (None, None) => return None,
    };
    if pipeline.is_some() {
        fields.forbid("groups", "a pipeline's instances are one group", "remove it");
        let advice = "remove it, and set `pipeline.instances`";
        fields.forbid("members", "a pipeline's instances are the members of its group", advice);
    }
    // If other processes send or receive as well, this process cannot know what is missing.
    let alone =
        pipeline.is_none_or(|pipeline| pipeline.group.is_none() && pipeline.producer_mode != ProducerMode::None);
    if !alone
        && let Some(field) = fields.get("verify")
        && field.boolean() == Some(true)
    {
        let advice = "remove it; the row counts in the record's `pipeline` replace verification";
        field.refuse(
            "with `pipeline.group` or `producer_mode = \"none\"`, other processes may send or receive as well",
            advice,
        );
    }
    let amount = |key: &str| fields.get(key).and_then(|field| field.amount(1, MOST)).unwrap_or(1);
    let flag = |key: &str| fields.get(key).and_then(|field| field.boolean()).unwrap_or(true);
    let starts = [("earliest", StartFrom::Earliest), ("latest", StartFrom::Latest)];
    Some(Consumers {
        groups: amount("groups"),
        members: pipeline.map_or_else(|| amount("members"), |pipeline| pipeline.instances),
        from: fields.get("from").and_then(|field| field.one_of(&starts)).unwrap_or(StartFrom::Earliest),
        end_to_end: flag("end_to_end"),
        verify: alone && flag("verify"),
        properties: fields.get("properties").map(|field| properties::read(&field, context)).unwrap_or_default(),
    })
}
