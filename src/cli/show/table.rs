//! Aligned columns, of which the least important give way when the terminal is narrow.

use super::page::{Page, Tone};

/// Blanks between columns.
const GAP: usize = 2;

/// A column with a cell for every row.
pub(in crate::cli) struct Column {
    pub(in crate::cli) title: String,
    pub(in crate::cli) cells: Vec<(Tone, String)>,
    pub(in crate::cli) align: Align,
    /// Columns of the lowest rank are left out first; those of rank [`Column::KEEP`] never.
    pub(in crate::cli) rank: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Align {
    Left,
    Right,
}

impl Column {
    pub(in crate::cli) const KEEP: u8 = u8::MAX;

    pub(in crate::cli) fn new(title: &str, align: Align, rank: u8, cells: impl Iterator<Item = String>) -> Self {
        Column { title: title.to_owned(), align, rank, cells: cells.map(|cell| (Tone::Plain, cell)).collect() }
    }

    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|(_, cell)| cell.chars().count());
        cells.chain([self.title.chars().count()]).max().unwrap_or(0)
    }
}

/// Prints the columns side by side under their titles.
pub(in crate::cli) fn print(page: &mut Page, mut columns: Vec<Column>) {
    while total(&columns) > page.width() {
        let least = columns.iter().enumerate().filter(|(_, column)| column.rank < Column::KEEP);
        // Of the same rank, the right one gives way.
        let Some(index) = least.min_by_key(|(index, column)| (column.rank, usize::MAX - index)).map(|(index, _)| index)
        else {
            break;
        };
        columns.remove(index);
    }
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    let line = |page: &Page, cell: &dyn Fn(&Column) -> (Tone, String)| {
        let cells: Vec<String> = columns
            .iter()
            .map(|column| {
                let (tone, text) = cell(column);
                let blanks = " ".repeat(column.width().saturating_sub(text.chars().count()));
                let text = page.paint(tone, &text);
                if column.align == Align::Left { text + &blanks } else { blanks + &text }
            })
            .collect();
        cells.join(&" ".repeat(GAP))
    };
    let titles = line(page, &|column| (Tone::Faint, column.title.clone()));
    page.line(&titles);
    for row in 0..rows {
        let cells = line(page, &|column| column.cells.get(row).cloned().unwrap_or((Tone::Plain, String::new())));
        page.line(&cells);
    }
}

fn total(columns: &[Column]) -> usize {
    columns.iter().map(Column::width).sum::<usize>() + GAP * columns.len().saturating_sub(1)
}
