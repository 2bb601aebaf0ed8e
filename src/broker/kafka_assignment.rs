//! The key `assignment` of `[broker.kafka]`, which both clients of Kafka have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Progress, Subscription};

/// Who decides which member of a group reads which partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Assignment {
    /// The group, which decides again whenever a member comes or goes.
    Group,
    /// brokermark, once: members take partitions in turn, and the group knows no members.
    Manual,
}

impl Assignment {
    /// As `asked` for, or by what the member is for: one that commits may have others beside it that brokermark does not know, and a
    /// group is asked. Members that do not commit, or that several processes have, read the same partitions from the beginning to the end.
    pub fn of(asked: Option<Assignment>, subscription: &Subscription) -> Self {
        let is_own = subscription.progress == Progress::Uncommitted || subscription.is_divided;
        asked.unwrap_or(if is_own { Assignment::Manual } else { Assignment::Group })
    }
}

/// Why `setting`, which members of groups have, does not go with members that join none.
pub fn joins_no_group(setting: &str) -> String {
    format!(
        "members with `assignment = \"manual\"` join no group, and those that do not commit have it unless another one is set: remove \
         {setting}, or set `broker.kafka.assignment = \"group\"`"
    )
}

/// Why a group whose members are in several processes is not asked.
pub const DIVIDED: &str = "the members of a group are in several processes, and those that stay would receive again what one that leaves has \
                           received: set `broker.kafka.assignment = \"manual\"`";
