"""From runs to a table: medians with their range, and the ratio of each of brokermark's ways to each peer."""

from statistics import median
from typing import Callable

from comparison import Run

MIB = 1024 * 1024

# Title, where it is in a run, how it is printed.
COLUMNS: list[tuple[str, Callable[[Run], float], Callable[[float], str]]] = [
    ("messages/s", lambda run: run.messages_per_second, lambda value: f"{value:,.0f}"),
    ("CPU µs/message", lambda run: run.cpu_microseconds_per_message, lambda value: f"{value:.2f}"),
    ("peak memory MiB", lambda run: run.peak_memory_bytes / MIB, lambda value: f"{value:.0f}"),
]


def spread(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


def per_tool(runs: list[Run]) -> dict[str, dict[str, dict[str, float]]]:
    """Tool → column → median, min, max over the rounds."""
    tools = list(dict.fromkeys(run.tool for run in runs))
    return {
        tool: {title: spread([read(run) for run in runs if run.tool == tool]) for title, read, _ in COLUMNS}
        for tool in tools
    }


def ratios(runs: list[Run], of: str, ours: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Peer → column → `of` / peer. The ratio is taken within each round, where both met the same machine."""
    found = {(run.tool, run.round): run for run in runs}
    result: dict[str, dict[str, dict[str, float]]] = {}
    for peer in dict.fromkeys(run.tool for run in runs if run.tool not in ours):
        rounds = [number for tool, number in found if tool == peer and (of, number) in found]
        if rounds:
            result[peer] = {
                title: spread([read(found[of, number]) / read(found[peer, number]) for number in rounds])
                for title, read, _ in COLUMNS
            }
    return result


def markdown(runs: list[Run], ours: list[str]) -> str:
    """A table of all, and one of ratios for each of `ours`. The plain text of a Markdown table is good enough for the terminal too."""
    titles = [title for title, _, _ in COLUMNS]
    formats = [write for _, _, write in COLUMNS]
    rows = [["tool", *titles]]
    for tool, columns in per_tool(runs).items():
        rows.append([tool, *(text(columns[title], write) for title, write in zip(titles, formats))])
    tables = [table(rows)]
    for of in ours:
        rows = [[f"{of} /", *titles]]
        for peer, columns in ratios(runs, of, ours).items():
            rows.append([peer, *(text(columns[title], lambda value: f"{value:.2f}") for title in titles)])
        if len(rows) > 1:
            tables.append(table(rows))
    return "\n\n".join(tables)


def text(values: dict[str, float], write: Callable[[float], str]) -> str:
    return f"{write(values['median'])} ({write(values['min'])}–{write(values['max'])})"


def table(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
