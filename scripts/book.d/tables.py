"""The generated regions of the pages: a function for each, which gives its text from the book."""

from collections import Counter
from statistics import median
from typing import Callable

from folder import Book
from measure import BUSY_CORES
from peer_parts import WORKLOADS, favours
from plan import PARTS
from published_parts import BENCHMARKS
from ratios import Beside, beside
from scale_parts import SECONDS as SCALED
from scale_parts import VALUES
from summary import MIB, table

NOT_YET = "Not measured in this book yet"
# Broker, its server, workload, way of brokermark, other tool as it calls itself, and as the README does.
README = [
    ("Apache Kafka", "kafka", "kafka-throughput", "brokermark native", "rdkafka_performance", "rdkafka_performance (C)"),
    ("Apache Pulsar", "pulsar", "pulsar-batched", "brokermark", "pulsar-perf produce", "pulsar-perf (Java)"),
    ("NATS JetStream", "nats", "nats-js-async", "brokermark", "nats bench", "nats bench js pub async (Go)"),
    ("Redis streams", "redis", "redis-xadd", "brokermark", "redis-benchmark", "redis-benchmark (C)"),
    ("MQTT, QoS 1: mosquitto", "mqtt", "mqtt-qos-1", "brokermark", "mqttv5 bench", "mqttv5-cli (Rust)"),
    ("NSQ", "nsq", "nsq-writer", "brokermark", "bench_writer", "bench_writer (Go)"),
    ("RabbitMQ quorum queues", "rabbitmq", "rabbitmq-queues-quorum", "brokermark", "perf-test", "perf-test (Java)"),
    ("RabbitMQ streams", "rabbitmq", "rabbitmq-pipelined", "brokermark", "stream-perf-test", "stream-perf-test (Java)"),
    ("Aliyun's log service, emulated", "", "sls-io-1", "brokermark", "aliyun-log-producer", "aliyun-log-producer (Java)"),
]


def readme(book: Book) -> str:
    rows = [["broker", "other tool", "messages/s, ratio", "CPU for each message, ratio"]]
    for broker, server, workload, ours, peer, written in README:
        compared = book.done(f"peers/{workload}")
        name = f"{broker} {book.machine.get('servers', {}).get(server, '')}".strip()
        found = [row for row in beside(compared, BUSY_CORES) if row.ours == ours and row.peer.startswith(peer)] if compared else []
        rows.append([name, written, *((str(found[0].rate), str(found[0].cpu)) if found else (NOT_YET.lower(), "–"))])
    return table(rows)


def peers(broker: str) -> Callable[[Book], str]:
    workloads = [one for one in WORKLOADS if one.broker == broker]

    def region(book: Book) -> str:
        rows, behind = [["setting", "brokermark / other tool", "messages/s", "CPU per message", "brokermark's messages/s", "beyond the usual, favours"]], []
        for one in workloads:
            compared = book.done(one.name)
            if compared is None:
                continue
            setting = f"{compared['setting']}; {compared['workload']['messages']:,} messages"
            for found in beside(compared, BUSY_CORES):
                mark = "" if found.alone else " †"
                cells = [str(found.rate) + mark, str(found.cpu), f"{found.messages_per_second:,.0f}", favours(found.peer)]
                rows.append([setting, f"{found.ours} / {found.peer}", *cells])
                setting, behind = "the same", behind + not_ahead(one.workload, found)
        paragraphs = [table(rows)] if len(rows) > 1 else []
        if behind:
            paragraphs.append(f"brokermark is behind, or not told apart: {'; '.join(behind)}.")
        if any("†" in cell for row in rows for cell in row):
            paragraphs.append("† Something else was at work on the machine before a run.")
        return "\n\n".join([*paragraphs, *remarks(book, [one.name for one in workloads])])

    return region


def not_ahead(workload: str, found: Beside) -> list[str]:
    """Where the interval of messages/s or of CPU does not lie on brokermark's side of 1."""
    lacking = [] if found.rate.is_above_one else [f"messages/s {found.rate}"]
    lacking += [] if found.cpu.is_below_one else [f"CPU {found.cpu}"]
    return [f"`{workload}`, {found.ours} / {found.peer}: {' and '.join(lacking)}"] if lacking else []


def remarks(book: Book, names: list[str]) -> list[str]:
    """Which of these parts were measured otherwise than the folder says, are not there, or failed."""
    return differing(book, names) + missing(book, names)


def missing(book: Book, names: list[str]) -> list[str]:
    """Which parts are not there, and which failed."""
    kept = {name: book.part(name) for name in names}
    absent = [f"`{name}`" for name, part in kept.items() if part is None]
    failed = [f"`{name}` failed: {part['error'].splitlines()[-1][:200]}" for name, part in kept.items() if part and part["status"] == "failed"]
    return ([f"{NOT_YET}: {', '.join(absent)}."] if absent else []) + failed


def differing(book: Book, names: list[str]) -> list[str]:
    """What was another than the folder's, of parts that were made later or elsewhere: a sentence for each difference."""
    known = {"brokermark_commit": "commit", "cpu_model": "processor", "kernel": "kernel", "cores": "cores"}
    parts: dict[str, list[str]] = {}
    for name in names:
        differs = (book.part(name) or {}).get("differs_from_the_folder", {})
        changed = ", ".join(f"{word} {differs[key]}" for key, word in known.items() if key in differs)
        if changed:
            parts.setdefault(changed, []).append(f"`{name}`")
    return [f"Measured with another {changed}: {', '.join(alike)}." for changed, alike in parts.items()]


def folder(book: Book) -> str:
    if book.folder is None or not book.machine:
        return "No book has been measured yet: `scripts/book measure` makes one."
    machine = book.machine
    servers = ", ".join(f"{name} {version}" for name, version in machine["servers"].items())
    done = [part for part in PARTS if book.done(part.name) is not None]
    sentences = [
        f"[`{book.folder.name}/`]({book.folder.name}/): {len(done)} of {len(PARTS)} parts are measured. {machine['cpu_model']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB, {machine['operating_system']}, kernel {machine['kernel']}; brokermark "
        f"{machine['brokermark_version']}, commit {machine['brokermark_commit']}, {machine['rust_compiler']}. Servers: {servers}."
    ]
    speeds = [part["loops_per_second"] / 1e6 for part in map(book.part, (part.name for part in PARTS)) if part and "loops_per_second" in part]
    if speeds:
        sentences.append(
            "Machines whose processors have the same name differ in speed, and one differs from hour to hour: an empty loop of Python had "
            f"{min(speeds):.0f} to {max(speeds):.0f} million rounds a second before the {len(speeds)} parts where it was timed. Compare ratios, not rates, "
            "between parts."
        )
    return "\n\n".join([*sentences, *remarks(book, [part.name for part in PARTS])])


def published(book: Book) -> str:
    paragraphs = []
    for one in BENCHMARKS:
        result = book.done(one.part)
        if result is None:
            continue
        rows = [["point", "published", "here: median (lowest–highest)", "received/s", "CPU µs/message", "valid trials; reasons against the others"]]
        unit = "MB/s raw" if one.name.startswith("sls-") else "messages/s"
        points = list({str(trial["point"]): trial["point"] for trial in result["trials"]}.values())
        for point, figure in zip(points, result["published"]):
            trials = [trial for trial in result["trials"] if trial["point"] == point and trial["status"] == "completed"]
            rows.append(published_row(point, figure, trials, unit))
        differs = f" Not as published: {one.differs}." if one.differs else ""
        page = f"{book.folder.name}/{one.part}/report.html"
        paragraphs.append(f"**`{one.part.removeprefix('published/')}`**, {unit}.{differs} [Page]({page}).\n\n{table(rows)}")
    names = [one.part for one in BENCHMARKS]
    return "\n\n".join([*paragraphs, *remarks(book, names)])


def published_row(point: dict, figure: float | None, trials: list[dict], unit: str) -> list[str]:
    label = ", ".join(f"{key.split('.')[-1]} {value}" for key, value in point.items()) or "–"
    column, divisor = ("payload_bytes_per_second", 1e6) if "MB" in unit else ("messages_per_second", 1)
    rates = [trial[column] / divisor for trial in trials if trial[column]]
    received = [trial["consumed_per_second"] for trial in trials if trial["consumed_per_second"]]
    cpu = [trial["cpu_ns_per_message"] / 1000 for trial in trials if trial["cpu_ns_per_message"]]
    digits = 1 if "MB" in unit else 0
    return [
        label,
        "–" if figure is None else f"{figure:,}",
        f"{median(rates):,.{digits}f} ({min(rates):,.{digits}f}–{max(rates):,.{digits}f})" if rates else "no trial completed",
        f"{median(received):,.0f}" if received else "–",
        f"{median(cpu):.2f}" if cpu else "–",
        validity(trials),
    ]


def validity(trials: list[dict]) -> str:
    """How many are valid, and how many have each reason against them."""
    reasons = Counter(reason for trial in trials for reason in trial["reasons"])
    return f"{sum(trial['valid'] for trial in trials)} of {len(trials)}" + "".join(f"; {reason} {count}" for reason, count in reasons.most_common())


def soak(book: Book) -> str:
    rows = [["part", "capacity, messages/s", "load", "minutes", "acknowledged", "lost, duplicated", "memory MiB, first and last minute", "growth KiB/s", "p99 ms of the minutes", "valid"]]
    names = [part.name for part in PARTS if part.name.startswith("soak/")]
    for name, result in ((name, book.done(name)) for name in names):
        if result is None:
            continue
        minutes, found = result["minutes"], result["verification"]
        p99 = [minute["p99_median_ns"] / 1e6 for minute in minutes if minute["p99_median_ns"] is not None]
        rows.append(
            [
                f"[`{name}`]({book.folder.name}/{name}/report.html)",
                f"{2 * result['rate']:,.0f}",
                f"{result['rate']:,.0f}",
                str(len(minutes)),
                f"{result['acknowledged']:,}",
                f"{found['lost']}, {found['duplicated']}",
                f"{minutes[0]['memory_bytes'] / MIB:.0f}, {minutes[-1]['memory_bytes'] / MIB:.0f}",
                f"{result['growth_bytes_per_second'] / 1024:.2f}",
                f"{min(p99):.1f}–{max(p99):.1f}" if p99 else "–",
                "yes" if result["valid"] else "no: " + ", ".join(result["reasons"]),
            ]
        )
    return "\n\n".join(([table(rows)] if len(rows) > 1 else []) + remarks(book, names))


def scale(book: Book) -> str:
    paragraphs = []
    for axis in VALUES:
        names = [f"scale/{broker}-{axis}" for broker in SCALED]
        if any(book.done(name) for name in names):
            paragraphs.append(f"![Cost of a message and memory by {axis}]({book.folder.name}/scale-{axis}.svg)")
            trials = [trial for name in names for trial in (book.done(name) or {"points": []})["points"]]
            paragraphs.append(f"Valid trials, and the reasons of the others: {validity(trials)}.")
            failed = {name: book.done(name)["failed"] for name in names if book.done(name)}
            paragraphs += [f"`{name}` could not do {value}: {why}" for name, points in failed.items() for value, why in points.items()]
    ranks = book.done("scale/null-ranks")
    if ranks and len({point["value"] for point in ranks["points"]}) > 1:
        memory = {point["value"]: point["peak_memory_bytes"] / MIB for point in ranks["points"]}
        few, many = min(memory), max(memory)
        each = (memory[many] - memory[few]) / (many - few)
        paragraphs.append(f"Each further rank on the null broker takes {each:.1f} MiB: 1,000 ranks would need {each * 1000 / 1024:.1f} GiB on all their machines together (computed, not tried).")
    return "\n\n".join([*paragraphs, *remarks(book, [part.name for part in PARTS if part.name.startswith("scale/")])])


def trust(book: Book) -> str:
    rows = [["part", "what", "result"]]
    names = [part.name for part in PARTS if part.name.startswith("trust/")]
    for name, result in ((name, book.done(name)) for name in names):
        if result is None:
            continue
        if "figures" in result:
            changed = [figure for figure in result["figures"] if figure["outcome"] in ("better", "worse")]
            what = "two equal sides" if name.endswith("-aa") else "B is 5 % slower"
            said = ", ".join(f"{figure['figure']} {figure['outcome']}: {figure['ratio']:.3f}" for figure in changed) or "nothing changed"
            rows.append([f"`{name}`", what, said])
        else:
            searched, swept = result["search"], result["capacity_by_sweep"]
            found = f"{searched['capacity_per_second']:,.0f}" if searched["capacity_per_second"] else "none"
            if searched["capacity_low"]:
                found += f" ({searched['capacity_low']:,.0f}–{searched['capacity_high']:,.0f})"
            difference = f"{(searched['capacity_per_second'] / swept - 1) * 100:+.1f} %" if searched["capacity_per_second"] and swept else "unknown"
            rows.append([f"`{name}`", "search beside a sweep of rates", f"{found} and {swept or 0:,} messages/s: {difference}"])
    return "\n\n".join(([table(rows)] if len(rows) > 1 else []) + remarks(book, names))


REGIONS: dict[str, Callable[[Book], str]] = {
    "readme": readme,
    "folder": folder,
    "published": published,
    "trust": trust,
    "scale": scale,
    "soak": soak,
} | {f"peers/{broker}": peers(broker) for broker in dict.fromkeys(one.broker for one in WORKLOADS)}
