//! `[consumers]`: the consumers, and what they record and verify. Without the table nothing is consumed, except by the
//! instances of a pipeline, which are consumers: for them the table adds settings.

use super::payload::Sizes;
use super::{Context, groups, properties};
use crate::scenario::fields::Fields;
use crate::scenario::path::KeyPath;
use crate::scenario::{ConsumerGroup, Consumers, Pipeline, ProducerMode, StartFrom, Timing};

pub(super) const KEYS: &[&str] =
    &["groups", "members", "from", "end_to_end", "timing", "verify", "properties", "group", "backlog"];

const MAX: usize = 100_000;

pub(super) fn read(
    root: &Fields<'_>,
    context: &Context<'_>,
    pipeline: Option<&Pipeline>,
    sizes: Sizes,
) -> Option<Consumers> {
    let empty = toml::Table::new();
    let fields = match (root.get("consumers"), pipeline) {
        (Some(field), _) => field.fields(KEYS)?,
        (None, Some(_)) => Fields::new(&empty, KeyPath::of(&["consumers"]), root.problems, KEYS),
        (None, None) => return None,
    };
    if pipeline.is_some() {
        forbid_for_pipelines(&fields);
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
    let flag = |key: &str| fields.get(key).and_then(|field| field.boolean()).unwrap_or(true);
    let timings = [("all", Timing::All), ("own", Timing::Own)];
    let starts = [("earliest", StartFrom::Earliest), ("latest", StartFrom::Latest)];
    Some(Consumers {
        groups: groups_of(&fields, context),
        members: pipeline.map_or_else(|| amount(&fields, "members"), |pipeline| pipeline.instances),
        from: fields.get("from").and_then(|field| field.one_of(&starts)).unwrap_or(StartFrom::Earliest),
        end_to_end: flag("end_to_end"),
        timing: fields.get("timing").and_then(|field| field.one_of(&timings)).unwrap_or(Timing::All),
        verify: alone && flag("verify"),
        backlog: fields.get("backlog").and_then(|field| groups::backlog(&field, sizes)),
    })
}

fn amount(fields: &Fields<'_>, key: &str) -> usize {
    fields.get(key).and_then(|field| field.amount(1, MAX)).unwrap_or(1)
}

fn forbid_for_pipelines(fields: &Fields<'_>) {
    for key in ["groups", "group"] {
        fields.forbid(key, "a pipeline's instances are one group", "remove it");
    }
    let advice = "remove it, and set `pipeline.instances`";
    fields.forbid("members", "a pipeline's instances are the members of its group", advice);
    let advice = "remove it, and set `pipeline.producer_mode = \"backlog\"`";
    fields.forbid("backlog", "a pipeline has a backlog mode of its own", advice);
}

/// Each group with what it is told to do: `groups` that are told nothing, or those of `[[consumers.group]]`.
fn groups_of(fields: &Fields<'_>, context: &Context<'_>) -> Vec<ConsumerGroup> {
    let properties = fields.get("properties").map(|field| properties::read(&field, context)).unwrap_or_default();
    fields.exclusive("group", "groups", "remove `groups`: there are as many as `[[consumers.group]]` tables");
    if let Some(field) = fields.get("group") {
        return groups::read(&field, &properties, context);
    }
    vec![ConsumerGroup { properties, ..ConsumerGroup::default() }; amount(fields, "groups")]
}
