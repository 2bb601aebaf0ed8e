//! A row of figures as a row of blocks.

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// How several figures become one block when the figures are more than the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    Mean,
    Max,
}

/// At most `width` blocks, from zero to the largest figure: a scale that begins at zero shows a small change as small.
/// A figure that is missing, or zero, is a blank.
pub(super) fn sparkline(figures: &[Option<f64>], width: usize, fold: Fold) -> String {
    let figures = folded(figures, width.max(1), fold);
    let top = figures.iter().flatten().copied().fold(0.0, f64::max);
    let block = |figure: &Option<f64>| match figure {
        Some(value) if *value > 0.0 => BLOCKS[((value / top * 8.0).ceil() as usize).clamp(1, 8) - 1],
        _ => ' ',
    };
    figures.iter().map(block).collect()
}

fn folded(figures: &[Option<f64>], width: usize, fold: Fold) -> Vec<Option<f64>> {
    if figures.len() <= width {
        return figures.to_vec();
    }
    let part = |index: usize| {
        let part = &figures[index * figures.len() / width..(index + 1) * figures.len() / width];
        let known: Vec<f64> = part.iter().flatten().copied().collect();
        match (known.is_empty(), fold) {
            (true, _) => None,
            (false, Fold::Mean) => Some(known.iter().sum::<f64>() / known.len() as f64),
            (false, Fold::Max) => Some(known.into_iter().fold(0.0, f64::max)),
        }
    };
    (0..width).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_begins_at_zero_and_gaps_stay_blank() {
        let figures = [Some(8.0), Some(4.0), None, Some(0.0), Some(1.0), Some(7.9)];
        assert_eq!(sparkline(&figures, 10, Fold::Mean), "█▄  ▁█");
        assert_eq!(sparkline(&[Some(0.0)], 10, Fold::Mean), " ");
        assert_eq!(sparkline(&[], 10, Fold::Mean), "");
    }

    #[test]
    fn more_figures_than_room_are_folded() {
        let figures = [8.0, 0.0, 4.0, 4.0].map(Some);
        assert_eq!(sparkline(&figures, 2, Fold::Mean), "██");
        assert_eq!(sparkline(&figures, 2, Fold::Max), "█▄");
    }
}
