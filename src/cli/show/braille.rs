//! A small drawing of dots in braille characters: two dots wide and four high in each (Unicode, block "Braille Patterns").

/// The pattern without a dot.
const BLANK: u32 = 0x2800;

/// The bits of a pattern's dots, by row and column.
const BITS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// Dots that are set one by one; the origin is at the lower left.
pub(in crate::cli) struct Canvas {
    columns: usize,
    rows: usize,
    patterns: Vec<u32>,
}

impl Canvas {
    /// Of so many characters in each direction.
    pub(in crate::cli) fn new(columns: usize, rows: usize) -> Self {
        Canvas { columns, rows, patterns: vec![0; columns * rows] }
    }

    /// Dots in a row.
    pub(in crate::cli) fn width(&self) -> usize {
        self.columns * 2
    }

    /// Dots in a column.
    pub(in crate::cli) fn height(&self) -> usize {
        self.rows * 4
    }

    /// A dot outside is left out.
    pub(in crate::cli) fn set(&mut self, x: usize, y: usize) {
        if x < self.width() && y < self.height() {
            let from_top = self.height() - 1 - y;
            self.patterns[from_top / 4 * self.columns + x / 2] |= BITS[from_top % 4][x % 2];
        }
    }

    /// Sets all dots of a column from one height to another, in either direction.
    pub(in crate::cli) fn column(&mut self, x: usize, from: usize, to: usize) {
        (from.min(to)..=from.max(to)).for_each(|y| self.set(x, y));
    }

    /// The lines from top to bottom.
    pub(in crate::cli) fn lines(&self) -> impl Iterator<Item = String> {
        self.patterns.chunks(self.columns.max(1)).map(|row| {
            let characters = row.iter().map(|pattern| char::from_u32(BLANK + pattern).unwrap_or(' '));
            // A blank pattern is wider than a blank in some fonts.
            characters.map(|character| if u32::from(character) == BLANK { ' ' } else { character }).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_lie_where_the_standard_has_them() {
        let mut canvas = Canvas::new(2, 1);
        assert_eq!(canvas.lines().collect::<Vec<_>>(), ["  "]);
        // Dot 7 is at the lower left, dot 4 at the upper right.
        canvas.set(0, 0);
        canvas.set(3, 3);
        canvas.set(4, 0);
        canvas.set(0, 4);
        assert_eq!(canvas.lines().collect::<Vec<_>>(), ["⡀⠈"]);
        let mut canvas = Canvas::new(1, 2);
        canvas.column(0, 7, 0);
        assert_eq!(canvas.lines().collect::<Vec<_>>(), ["⡇", "⡇"]);
    }
}
