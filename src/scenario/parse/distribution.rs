//! `[distribution]`: which of several processes run producers, and which run consumers.

use crate::scenario::fields::Fields;
use crate::scenario::{RankRoles, RankSet};

pub(super) const KEYS: &[&str] = &["writers", "readers"];

pub(super) fn read(root: &Fields<'_>) -> RankRoles {
    let Some(fields) = root.get("distribution").and_then(|field| field.fields(KEYS)) else {
        return RankRoles::default();
    };
    if !root.has("consumers") {
        fields.forbid(
            "readers",
            "nothing is consumed, so no rank can be a reader",
            "remove it, or add a [consumers] table",
        );
    }
    let ranks = |key: &str| -> Option<RankSet> {
        let field = fields.get(key)?;
        let parsed = field.string()?.parse();
        let advice = "write the numbers of ranks, from 0, as in \"0-2,5\"";
        parsed.map_err(|reason: String| field.refuse(format!("`{}`: {reason}", field.path), advice)).ok()
    };
    RankRoles { writers: ranks("writers"), readers: ranks("readers") }
}
