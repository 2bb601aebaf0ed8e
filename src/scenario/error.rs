//! The error a user sees when a scenario is refused.

use std::fmt;

/// Everything that is wrong with a scenario, ready to be printed: for each problem the file, line and column, the
/// offending text, and what would be right. Secrets are masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    pub(super) reports: Vec<String>,
}

/// More than this many problems are counted, not shown.
const MAX_SHOWN: usize = 10;

impl ScenarioError {
    pub(super) fn single(report: String) -> Self {
        ScenarioError { reports: vec![report] }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, report) in self.reports.iter().take(MAX_SHOWN).enumerate() {
            if position > 0 {
                formatter.write_str("\n\n")?;
            }
            formatter.write_str(report.trim_end())?;
        }
        match self.reports.len().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more => write!(formatter, "\n\n… and {more} more"),
        }
    }
}

impl std::error::Error for ScenarioError {}
