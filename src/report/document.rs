//! The document: its head, its sections in their order, and a script that only adds.

use super::section::{Block, Section};
use super::svg::escape;
use super::tiles::Tile;
use super::{html, theme};
use crate::present::Summary;

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// No request is possible: not even an accidental one.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// The page.
pub fn page(title: &str, summary: &Summary, tiles: &[Tile], sections: &[Section]) -> String {
    let links: String = sections.iter().enumerate().map(|(index, section)| link(index, section)).collect();
    let body: String = sections.iter().enumerate().map(|(index, section)| self::section(index, section)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"generator\" content=\"brokermark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{0} · brokermark</title>\n<style>{1}{2}</style>\n</head>\n<body>\n{3}\n\
         <nav aria-label=\"sections\"><ul>{links}</ul></nav>\n<main>\n{body}</main>\n\
         <footer>Made by brokermark from the run's records. Crosses mark what is not valid; times are in UTC.</footer>\n\
         <script>{4}</script>\n</body>\n</html>\n",
        escape(title),
        theme::properties(),
        theme::compact(STYLE),
        html::head(summary, tiles),
        SCRIPT.trim()
    )
}

/// Sections of several comparisons may share a name.
fn anchor(index: usize, section: &Section) -> String {
    format!("{}-{index}", section.id)
}

fn link(index: usize, section: &Section) -> String {
    format!("<li><a href=\"#{}\">{}</a></li>", anchor(index, section), escape(&section.title))
}

fn section(index: usize, section: &Section) -> String {
    let blocks: String = section.blocks.iter().map(block).collect();
    let id = anchor(index, section);
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-title\"><h2 id=\"{id}-title\">{}</h2>\n{blocks}</section>\n",
        escape(&section.title)
    )
}

fn block(block: &Block) -> String {
    match block {
        Block::Html(html) => html.clone(),
        Block::Figure(figure) => figure.html(3),
        Block::Pair(figures) => {
            format!("<div class=\"pair\">{}</div>", figures.iter().map(|figure| figure.html(3)).collect::<String>())
        }
    }
}
