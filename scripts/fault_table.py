"""Prints the records of clusters that lost a node as a table in Markdown; see fault-table."""

import json
import sys


def seconds(nanoseconds):
    return "–" if nanoseconds is None else f"{nanoseconds / 1e9:.2f} s"


def row(record):
    outages = record.get("outages", [])
    worst = max(outages, key=lambda outage: outage["longest_gap_ns"], default=None)
    counts, verified = record["counts"], record["verification"]
    response = record["latency"]["response"]
    return [
        record["scenario_name"],
        str(len(outages)),
        seconds(record["throughput"]["longest_gap_ns"]),
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
        "fault", "outages", "longest gap", "next acknowledgement after", "95 % of the rate after", "longest response",
        "acknowledged", "failed", "lost", "duplicated",
    ]
    with open(sys.argv[1], encoding="utf-8") as lines:
        rows = [row(json.loads(line)) for line in lines]
    print("| " + " | ".join(head) + " |")
    print("|---" + "|---:" * (len(head) - 1) + "|")
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


main()
