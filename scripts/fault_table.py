"""Prints the records of clusters that lost nodes as tables in Markdown; see fault-table."""

import json
import sys


def seconds(nanoseconds):
    return "–" if nanoseconds is None else f"{nanoseconds / 1e9:.2f} s"


def followed(command):
    return [
        str(command["outages"]),
        seconds(command["longest_gap_ns"]),
        seconds(command["first_acknowledgement_ns"]),
        seconds(command["recovered_ns"]),
        f"{command['failed']:,}",
    ]


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|---" + "|---:" * (len(head) - 1) + "|")
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


def commands(record):
    for fault in record["faults"]:
        for command in filter(None, (fault["run"], fault.get("undo"))):
            words = command["command"].removeprefix("scripts/brokers ")
            yield [f"{record['scenario_name']}: `{words}`", *followed(command)]


def load(record):
    counts, verified = record["counts"], record["verification"]
    own = sum(outage.get("caused_by_client", False) for outage in record.get("outages", []))
    figures = [counts["acknowledged"], counts["failed"], verified["lost"], verified["duplicated"], own]
    return [record["scenario_name"], seconds(record["latency"]["response"]["max_ns"]), *(f"{figure:,}" for figure in figures)]


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    head = ["command", "outages", "longest gap", "next acknowledgement after", "95 % of the rate after", "failed"]
    table(head, [row for record in records for row in commands(record)])
    print()
    head = ["load", "longest response", "acknowledged", "failed", "lost", "duplicated", "outages that the client made"]
    table(head, map(load, records))


main()
