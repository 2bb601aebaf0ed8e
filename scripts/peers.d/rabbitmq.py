"""RabbitMQ streams: brokermark beside RbFly and rstream, the Python clients of RbFly's performance report.

The workload `batch` (the default) awaits the confirmation of each 100 messages before the next, `single` that of each message.
Messages are 10 bytes, in AMQP 1.0 format, on a new stream each time.

The clients' rates are of the publishing loop only; their CPU time is of the whole process, the start of Python included.
"""

import os
import re
import subprocess
import venv
from pathlib import Path

import measure
from brokermark import Brokermark
from comparison import Comparison, Workload
from measure import PeerError, Process

PROGRAM = Path(__file__).with_name("rabbitmq_publish.py")
WORKLOADS = {"batch": 100, "single": 1}  # messages confirmed together


def comparison(messages: int, server: dict[str, str], side: str = "batch") -> Comparison:
    if side not in WORKLOADS:
        raise PeerError(f"no workload '{side}'; there are: {', '.join(WORKLOADS)}")
    workload = Workload(
        messages=messages,
        payload_bytes=10,
        partitions=1,
        acks="1",
        linger_ms=0,
        batch_bytes=WORKLOADS[side] * 10,
        queue_messages=WORKLOADS[side],
    )
    address = server["BROKERMARK_RABBITMQ"]
    ours = Brokermark(f"configs/seeds/rabbitmq-{side}.toml", {"broker.address": address, "sweep.trials": 1})
    clients = [Client(name, side, address) for name in ("rbfly", "rstream")]
    return Comparison(
        broker="rabbitmq",
        setting=f"{side}: 10 B as AMQP 1.0, batches of {WORKLOADS[side]}, one outstanding, named publisher",
        workload=workload,
        peers=[ours, *clients],
        warm_up=lambda: ours.run(workload) and None,
    )


class Client:
    rate = "messages / duration of the publishing loop"

    def __init__(self, name: str, side: str, address: str):
        self.name, self.batch, self.address = name, WORKLOADS[side], address
        self.environment = CACHE / "python-rabbitmq-streams"

    def install(self) -> None:
        marker = self.environment / "complete"
        if not marker.exists():
            venv.create(self.environment, with_pip=True, clear=True)
            pip = [str(self.environment / "bin/python"), "-m", "pip", "install", "--quiet", *PACKAGES]
            subprocess.run(pip, check=True)
            marker.touch()

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        python = str(self.environment / "bin/python")
        process = measure.run([python, str(PROGRAM), self.name, self.address, str(self.batch), str(workload.messages)])
        line = re.search(r"^(\d+) messages in ([\d.]+) s$", process.output, re.MULTILINE)
        if line is None or int(line.group(1)) != workload.messages:
            raise PeerError(f"{self.name} printed no result:\n{process.output[-2000:]}")
        return workload.messages / float(line.group(2)), line.group(0), process
