//! One finding: a reason against the figures, or a note.

use crate::record::{Reason, ReasonKind};

/// A reason, and whether it speaks against the figures or is only worth knowing.
pub(super) struct Finding {
    pub(super) reason: Reason,
    pub(super) against: bool,
}

/// Speaks against trusting the figures.
pub(super) fn against(kind: ReasonKind, evidence: String, advice: &str, figures: &[(&str, f64)]) -> Finding {
    Finding { reason: reason(kind, evidence, advice, figures), against: true }
}

/// Is worth knowing.
pub(super) fn note(kind: ReasonKind, evidence: String, advice: &str, figures: &[(&str, f64)]) -> Finding {
    Finding { reason: reason(kind, evidence, advice, figures), against: false }
}

fn reason(kind: ReasonKind, evidence: String, advice: &str, figures: &[(&str, f64)]) -> Reason {
    let figures = figures.iter().filter(|(_, value)| value.is_finite());
    Reason {
        kind,
        evidence,
        advice: advice.to_owned(),
        figures: figures.map(|(name, value)| ((*name).to_owned(), *value)).collect(),
    }
}
