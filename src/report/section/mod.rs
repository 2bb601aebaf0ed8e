//! What a page is made of, each from records: charts, and the values of `present` between them.
//!
//! - `timeline`, `course`, `heat`: one trial over time. `latency`: percentiles. `pipeline`: stages, rows, lag.
//! - `spread`: partitions and consumers that differ. `sweep`: points beside each other. `search`: probes. `comparison`: two runs.

pub mod comparison;
pub mod course;
pub mod heat;
pub mod latency;
pub mod pipeline;
pub mod search;
pub mod spread;
pub mod sweep;
mod timeline;

use std::collections::BTreeMap;

use super::figure::Figure;

/// A part of the page, with a heading of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    pub id: &'static str,
    pub title: String,
    pub blocks: Vec<Block>,
}

/// What stands in a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Html(String),
    Figure(Box<Figure>),
    /// Side by side where there is room.
    Pair(Vec<Figure>),
}

impl Block {
    pub fn figure(figure: Figure) -> Self {
        Block::Figure(Box::new(figure))
    }

    fn figures_mut(&mut self) -> &mut [Figure] {
        match self {
            Block::Html(_) => &mut [],
            Block::Figure(figure) => std::slice::from_mut(figure),
            Block::Pair(figures) => figures,
        }
    }

    pub fn figures(&self) -> &[Figure] {
        match self {
            Block::Html(_) => &[],
            Block::Figure(figure) => std::slice::from_ref(figure),
            Block::Pair(figures) => figures,
        }
    }
}

impl Section {
    /// A section; `None` without anything in it.
    pub fn new(id: &'static str, title: &str, blocks: Vec<Block>) -> Option<Self> {
        let is_empty = blocks.iter().all(|block| matches!(block, Block::Html(html) if html.is_empty()));
        (!is_empty).then(|| Section { id, title: title.to_owned(), blocks })
    }

    /// A section of text alone.
    pub fn text(id: &'static str, title: &str, html: String) -> Option<Self> {
        Section::new(id, title, vec![Block::Html(html)])
    }

    /// The same with a title that says whose it is, where a page has several.
    pub fn named_as_of(mut self, whose: &str) -> Self {
        self.title = format!("{whose}: {}", self.title.to_lowercase());
        self
    }
}

/// Gives every chart a name of its own: a page may have the same one of all trials, and of one.
pub fn name_apart(sections: &mut [Section]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for figure in sections.iter_mut().flat_map(|section| &mut section.blocks).flat_map(Block::figures_mut) {
        let times = seen.entry(figure.id.clone()).or_default();
        *times += 1;
        if *times > 1 {
            figure.id = format!("{}-{times}", figure.id);
        }
    }
}
