"""A chart of lines as SVG, with logarithmic axes, readable on light and dark pages."""

from html import escape
from math import ceil, floor, log2, log10
from typing import Callable

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, GAP = 980, 360, 76, 146, 44, 40, 64
COLOURS = ["#2f6fd0", "#d0572f", "#2f9d5a", "#9a52c7", "#b8860b", "#1797a6", "#c73d7b", "#7a7a7a"]
STYLE = """text{font:12px sans-serif;fill:#333}.axis{stroke:#999;stroke-width:1}.grid{stroke:#8884;stroke-width:1}
.line{fill:none;stroke-width:2}@media(prefers-color-scheme:dark){text{fill:#ddd}}"""

Lines = dict[str, list[tuple[float, float]]]  # name → points, each of x and y above 0


def chart(title: str, x: str, panels: dict[str, Lines], x_label: Callable[[float], str]) -> str:
    """Panels side by side, which share the lines' colours. `x_label` writes a value of the x axis."""
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    width = (WIDTH - LEFT - RIGHT - GAP * (len(panels) - 1)) / len(panels)
    parts = [text(LEFT, 18, title, "style='font-weight:bold'")]
    for number, (label, lines) in enumerate(panels.items()):
        parts += panel(LEFT + number * (width + GAP), width, label, x, lines, colours, x_label)
    for number, name in enumerate(names):
        y = TOP + 8 + number * 18
        parts.append(f"<line class='line' stroke='{colours[name]}' x1='{WIDTH - RIGHT + 10}' x2='{WIDTH - RIGHT + 26}' y1='{y - 4}' y2='{y - 4}'/>")
        parts.append(text(WIDTH - RIGHT + 30, y, name))
    body = "\n".join(parts)
    return f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>\n<style>{STYLE}</style>\n{body}\n</svg>\n"


def panel(left: float, width: float, label: str, x: str, lines: Lines, colours: dict[str, str], x_label: Callable[[float], str]) -> list[str]:
    points = [point for line in lines.values() for point in line]
    columns = sorted({x for x, _ in points})
    least, most = log2(columns[0]), max(log2(columns[-1]), log2(columns[0]) + 1)
    bottom, top = floor(log10(min(y for _, y in points))), ceil(log10(max(y for _, y in points)))
    top = max(top, bottom + 1)
    height = HEIGHT - TOP - BOTTOM

    def across(x: float) -> float:
        return left + (log2(x) - least) / (most - least) * width

    def down(y: float) -> float:
        return TOP + (top - log10(y)) / (top - bottom) * height

    parts = [text(left, TOP - 8, label)]
    for power in range(bottom, top + 1):
        y = down(10.0**power)
        parts.append(f"<line class='grid' x1='{left:.1f}' x2='{left + width:.1f}' y1='{y:.1f}' y2='{y:.1f}'/>")
        parts.append(text(left - 6, y + 4, f"{10.0**power:,.10g}", "text-anchor='end'"))
    for column in columns:
        parts.append(text(across(column), HEIGHT - BOTTOM + 16, x_label(column), "text-anchor='middle'"))
    parts.append(text(left + width / 2, HEIGHT - 6, x, "text-anchor='middle'"))
    for name, line in lines.items():
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in sorted(line))
        parts.append(f"<polyline class='line' stroke='{colours[name]}' points='{path}'/>")
        parts += [f"<circle fill='{colours[name]}' r='3' cx='{across(x):.1f}' cy='{down(y):.1f}'/>" for x, y in line]
    return parts


def text(x: float, y: float, written: str, more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {more}>{escape(written)}</text>"
