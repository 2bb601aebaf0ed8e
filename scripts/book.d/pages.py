"""The pages' generated regions, and the charts.

`<!-- book: NAME -->` … `<!-- end -->` is what the book gives; a part that is not measured is named there. `<!-- older: PART, PART -->` … `<!-- end -->` has
older figures: it stays until all of these parts are in the book, then it is removed.
"""

import re
from pathlib import Path
from statistics import median

from chart import chart
from folder import Book
from measure import PeerError
from scale_parts import SECONDS as SCALED
from summary import MIB
from tables import REGIONS

PAGES = ["docs/PEERS.md", "README.md", "results/README.md"]
REGION = re.compile(r"<!-- (book|older): ([^>]+?) -->\n.*?<!-- end -->\n\n?", re.DOTALL)
X_TITLES = {"producers": "producers", "topics": "topics", "sizes": "message size", "ranks": "ranks"}


def write(book: Book, root: Path, check: bool) -> list[str]:
    """Writes what differs, unless `check`, and returns its places: page and region."""
    differing = []
    for name in PAGES:
        page = root / name
        text = page.read_text()
        places: list[str] = []
        written = REGION.sub(lambda found: region(book, found, name, places), text)
        differing += places
        if written != text and not check:
            page.write_text(written)
    for file, drawn in charts(book).items():
        if not file.exists() or file.read_text() != drawn:
            differing.append(f"{file.name}: chart")
            if not check:
                file.write_text(drawn)
    return differing


def region(book: Book, found: re.Match, page: str, differing: list[str]) -> str:
    kind, name = found[1], found[2]
    if kind == "older":
        new = "" if all(book.done(part.strip()) for part in name.split(",")) else found[0]
    elif name in REGIONS:
        blank = "\n" if found[0].endswith("-->\n\n") else ""
        new = f"<!-- book: {name} -->\n{REGIONS[name](book)}\n<!-- end -->\n{blank}"
    else:
        raise PeerError(f"{page}: no region {name}; there are: {', '.join(REGIONS)}")
    if new != found[0]:
        differing.append(f"{page}: {kind} {name}")
    return new


def charts(book: Book) -> dict[Path, str]:
    """File → SVG, for each axis of which something is measured."""
    drawn = {}
    for axis, title in X_TITLES.items():
        measured = {broker: book.done(f"scale/{broker}-{axis}") for broker in SCALED}
        panels = {
            label: {broker: points(result, column, unit) for broker, result in measured.items() if result}
            for label, column, unit in (("CPU ns for each message", "cpu_ns_per_message", 1), ("peak memory, MiB", "peak_memory_bytes", MIB))
        }
        if all(panels.values()):
            heading = f"Cost of a message and memory of the client by {title}"
            drawn[book.folder / f"scale-{axis}.svg"] = chart(heading, title, panels, size if axis == "sizes" else "{:,.0f}".format)
    return drawn


def points(result: dict, column: str, unit: float) -> list[tuple[float, float]]:
    """The median of the trials of each value."""
    values = dict.fromkeys(point["value"] for point in result["points"])
    return [(value, median(point[column] / unit for point in result["points"] if point["value"] == value)) for value in values]


def size(value: float) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= unit:
            return f"{value / unit:.0f} {name}"
    return f"{value:.0f} B"
