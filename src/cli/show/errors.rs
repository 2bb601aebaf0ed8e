//! Errors by class, one line each.

use super::page::Page;
use crate::record::ErrorCount;
use crate::record::readable::{count, duration};

pub(super) fn errors(page: &mut Page, label: &str, errors: &[ErrorCount]) {
    for (index, error) in errors.iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        let text = format!(
            "{} × {}: {} (first after {})",
            count(error.count),
            error.class,
            error.first_message,
            duration(error.first_at_ns as f64)
        );
        page.labelled(label, &text);
    }
}
