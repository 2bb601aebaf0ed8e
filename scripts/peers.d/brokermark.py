"""brokermark as one of the tools: runs an example scenario and reads the record it leaves."""

import dataclasses
import json
import os
import subprocess
import tempfile
from pathlib import Path

import measure
from comparison import Workload
from measure import PeerError, Process

REPOSITORY = Path(__file__).resolve().parents[2]
# What a record that is kept says of this machine only.
BLANK = {"hostname": "", "command_line": []}


def thinned(found: object, histograms: bool = False) -> object:
    """A record without what is of this machine only, and without its histograms, which are most of its size and without which `show` cannot read it."""
    if isinstance(found, dict):
        kept = {key: value for key, value in found.items() if histograms or key != "histogram"}
        return {key: BLANK.get(key, thinned(value, histograms)) for key, value in kept.items()}
    return [thinned(value, histograms) for value in found] if isinstance(found, list) else found


class Brokermark:
    # As other tools report: all messages, divided by the time until the last of them is acknowledged.
    rate = "the record's throughput.until_last_acknowledgement.messages_per_second"

    def __init__(self, scenario: str, settings: dict[str, object], name: str = "brokermark"):
        """`settings` are the scenario's keys to override, as TOML values that JSON writes the same way."""
        self.name = name
        self.scenario = REPOSITORY / scenario
        self.settings = settings
        self.program = Path(os.environ.get("BROKERMARK", REPOSITORY / "target/release/brokermark"))

    def install(self) -> None:
        if not self.program.exists():
            subprocess.run(["cargo", "build", "--release", "--locked"], cwd=REPOSITORY, check=True)

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        record, process = self.record(self.scenario, self.settings | {"run.messages": workload.messages})
        acknowledged = record["counts"]["acknowledged"]
        if acknowledged != workload.messages:
            raise PeerError(f"brokermark had {acknowledged} of {workload.messages} messages acknowledged")
        printed = json.dumps(thinned(record))
        return record["throughput"]["until_last_acknowledgement"]["messages_per_second"], printed, process

    def record(self, scenario: Path, settings: dict[str, object]) -> tuple[dict, Process]:
        """Runs a scenario of one trial, and reads the record it leaves."""
        with tempfile.TemporaryDirectory(prefix="brokermark-compare-") as results:
            command = [str(self.program), "run", str(scenario), "--quiet", "--output", results]
            for key, value in settings.items():
                command += ["--set", f"{key}={json.dumps(value)}"]
            process = measure.run(command)
            records = [
                json.loads(line)
                for file in Path(results).glob("*/records.jsonl")
                for line in file.read_text().splitlines()
            ]
        if len(records) != 1:
            raise PeerError(f"brokermark left {len(records)} records instead of one")
        return records[0], process


class BrokermarkBoth(Brokermark):
    """Publishes and reads at the same time."""

    rate = "the record's throughput.until_last_arrival.messages_per_second; CPU is of publishing, reading and verifying"

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        _, printed, process = super().run(workload)
        record = json.loads(printed)
        found = record["verification"]
        if found["lost"] + found["unread"] + found["corrupt"]:
            raise PeerError(f"brokermark did not receive all of {workload.messages} messages: {found}")
        return record["throughput"]["until_last_arrival"]["messages_per_second"], printed, process


class BrokermarkConsumer(Brokermark):
    """Reads what the same run has sent before. The CPU time is of reading only."""

    rate = "the record's pipeline: messages consumed and verified / (first received to last received)"

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        record, process = self.record(self.scenario, self.settings | {"run.messages": workload.messages})
        pipeline, found = record["pipeline"], record["verification"]
        if pipeline["consumed"] != workload.messages or found["lost"] + found["duplicated"] + found["corrupt"]:
            raise PeerError(f"brokermark consumed {pipeline['consumed']} of {workload.messages}: {found}")
        printed = json.dumps(thinned(record))
        cpu_seconds = pipeline["cpu_ns_per_message"] * workload.messages / 1e9
        rate = workload.messages * 1e9 / pipeline["working_ns"]
        return rate, printed, dataclasses.replace(process, cpu_seconds=cpu_seconds)
