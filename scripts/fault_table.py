"""Prints the records of clusters that lost a node as a table in Markdown; see fault-table."""

import json
import sys


def seconds(nanoseconds):
    return "–" if nanoseconds is None else f"{nanoseconds / 1e9:.2f} s"


def paused(outage):
    """For how much of its longest gap the load generator itself stood still; such an outage may not be the cluster's."""
    if outage is None or not outage.get("client_paused_ns"):
        return "–"
    own = ", which made it" if outage.get("caused_by_client") else ""
    return seconds(outage["client_paused_ns"]) + own


def row(record):
    outages = record.get("outages", [])
    # What the load generator made itself says nothing about the cluster.
    own = sum(outage.get("caused_by_client", False) for outage in outages)
    by_gap = sorted(outages, key=lambda outage: (not outage.get("caused_by_client", False), outage["longest_gap_ns"]))
    worst = by_gap[-1] if by_gap else None
    counts, verified = record["counts"], record["verification"]
    response = record["latency"]["response"]
    return [
        record["scenario_name"],
        f"{len(outages)}, of which the client made {own}" if own else str(len(outages)),
        seconds(worst["longest_gap_ns"] if worst else record["throughput"]["longest_gap_ns"]),
        paused(worst),
        seconds(worst and worst["first_acknowledgement_ns"]),
        seconds(worst and worst["recovered_ns"]),
        seconds(response["max_ns"]),
        f"{counts['acknowledged']:,}",
        f"{counts['failed']:,}",
        f"{verified['lost']:,}",
        f"{verified['duplicated']:,}",
    ]


def main():
    head = [
        "fault", "outages", "longest gap", "of it, the client stood still", "next acknowledgement after",
        "95 % of the rate after", "longest response", "acknowledged", "failed", "lost", "duplicated",
    ]
    with open(sys.argv[1], encoding="utf-8") as lines:
        rows = [row(json.loads(line)) for line in lines]
    print("| " + " | ".join(head) + " |")
    print("|---" + "|---:" * (len(head) - 1) + "|")
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


main()
