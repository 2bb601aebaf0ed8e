"""MQTT: brokermark beside `mqttv5 bench` of the crate mqttv5-cli and, where it can do the same, beside Tsung.

The workloads: `qos-1` (the default), `qos-0` and `both` over one connection of each kind, and `connections`, where each of 100 connections has one
message of QoS 1 in flight, which is all that Tsung can. `both` has one subscriber beside the publisher; brokermark also verifies what it reads.
BROKERMARK_MQTT_SIZE is the message size in bytes, 100 by default.

mqttv5 runs for a time, not for a number of messages: each run's time is chosen by the rate of the one before, and its CPU time is scaled to the number of
messages. It has a task for each message in flight and records no latency of them. With QoS 0 it counts a message when it is written to the
socket; brokermark counts it when the server has answered the PINGREQ behind its batch. Tsung speaks MQTT 3.1, the others MQTT 5. Its rate leaves
out its start, which its CPU time has.
"""

import dataclasses
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import measure
from brokermark import Brokermark, BrokermarkBoth
from comparison import Comparison, Peer, Workload
from measure import CACHE, PeerError, Process

VERSION = "0.29.10"
WINDOW = 500  # messages in flight over one connection
CONNECTIONS = 100
# Messages/s that are expected of mqttv5, to choose its first time.
WORKLOADS = {"qos-1": 100_000, "qos-0": 200_000, "both": 60_000, "connections": 30_000}
TOPIC = "compare-peers"


def comparison(messages: int, server: dict[str, str], side: str = "qos-1") -> Comparison:
    if side not in WORKLOADS:
        raise PeerError(f"no workload '{side}'; there are: {', '.join(WORKLOADS)}")
    size = int(os.environ.get("BROKERMARK_MQTT_SIZE", "100"))
    address = server["BROKERMARK_MQTT"]
    connections, window = (CONNECTIONS, 1) if side == "connections" else (1, WINDOW)
    workload = Workload(
        messages=messages,
        payload_bytes=size,
        partitions=1,
        acks="none" if side == "qos-0" else "1",
        linger_ms=0,
        batch_bytes=window * size,
        queue_messages=window,
    )
    settings = {
        "broker.address": address,
        "broker.connections": connections,
        "broker.mqtt.qos": 0 if side == "qos-0" else 1,
        "producers.count": connections,
        "producers.batch": min(window, 100),
        "producers.in_flight": window,
        "payload.size": size,
        "topology.name": TOPIC,
    }
    scenario = "configs/examples/mqtt-throughput.toml"
    if side == "both":
        ours = BrokermarkBoth(scenario, settings | {"consumers.members": 1, "broker.mqtt.shared": False})
    else:
        ours = Brokermark(scenario, settings)
    peers: list[Peer] = [ours, Mqttv5(side, address, connections, window)]
    if side == "connections":
        peers.append(Tsung(address))
    return Comparison(
        broker="mqtt",
        setting=f"{side}: {size} B, {connections} connection(s), {window} message(s) in flight on each",
        workload=workload,
        peers=peers,
        warm_up=lambda: ours.run(workload) and None,
    )


class Mqttv5:
    """`mqttv5 bench --mode throughput`. Publishers share one process with subscribers."""

    def __init__(self, side: str, address: str, connections: int, window: int):
        self.name = "mqttv5 bench"
        self.has_reader = side == "both"
        counted = "delivered inside the time" if self.has_reader else "published"
        self.rate = f"its own count of messages {counted} / its time; CPU is scaled to the number of messages"
        self.folder = CACHE / f"mqttv5-cli-{VERSION}"
        host, port = address.rsplit(":", 1)
        self.command = [str(self.folder / "bin/mqttv5"), "bench", "--host", host, "--port", port, "--topic", TOPIC]
        self.command += ["--qos", "0" if side == "qos-0" else "1", "--inflight", str(window), "--warmup", "0"]
        self.command += ["--publishers", str(connections), "--subscribers", "1" if self.has_reader else "0"]
        self.expected_rate = float(WORKLOADS[side])

    def install(self) -> None:
        if not (self.folder / "bin/mqttv5").exists():
            install = ["cargo", "install", "--quiet", "--root", str(self.folder), "--version", VERSION]
            subprocess.run([*install, "mqttv5-cli"], check=True)

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        seconds = max(3, round(workload.messages / self.expected_rate))
        size = ["--payload-size", str(workload.payload_bytes)]
        process = measure.run([*self.command, *size, "--duration", str(seconds), "--steady-trim", "0"])
        # It prints warnings and progress before.
        document = re.search(r"^\{.*^\}", process.output, re.MULTILINE | re.DOTALL)
        if document is None:
            raise PeerError(f"{self.name} printed no result:\n{process.output[-2000:]}")
        results = json.loads(document.group(0))["results"]
        if self.has_reader:
            messages, rate = results["received"], sum(results["samples"]) / max(1, len(results["samples"]))
        else:
            messages, rate = results["published"], results["published"] / results["elapsed_secs"]
        if not messages or not rate:
            raise PeerError(f"{self.name} has no rate after {seconds} s: give it more messages (--messages). It printed:\n{results}")
        self.expected_rate = rate
        scaled = dataclasses.replace(process, cpu_seconds=process.cpu_seconds * workload.messages / messages)
        return rate, json.dumps(results), scaled


class Tsung:
    """Users that publish and await the acknowledgement, as many messages each."""

    name = "tsung"
    rate = "its own: acknowledgements / mean duration of a user's publishing"

    def __init__(self, address: str):
        self.host, self.port = address.rsplit(":", 1)

    def install(self) -> None:
        if subprocess.run(["which", "tsung"], stdout=subprocess.DEVNULL).returncode != 0:
            measure.check(["apt-get", "-qq", "install", "-y", "--no-install-recommends", "tsung"])

    def scenario(self, workload: Workload) -> str:
        publish = f'<mqtt type="publish" topic="{TOPIC}" qos="1">{"x" * workload.payload_bytes}</mqtt>'
        return f"""<?xml version="1.0"?>
<!DOCTYPE tsung SYSTEM "/usr/share/tsung/tsung-1.0.dtd">
<tsung loglevel="notice" version="1.0">
  <clients><client host="localhost" use_controller_vm="true" maxusers="{CONNECTIONS}"/></clients>
  <servers><server host="{self.host}" port="{self.port}" type="tcp"/></servers>
  <load>
    <arrivalphase phase="1" duration="1" unit="minute">
      <users maxnumber="{CONNECTIONS}" arrivalrate="1000" unit="second"/>
    </arrivalphase>
  </load>
  <sessions>
    <session name="publisher" probability="100" type="ts_mqtt">
      <request><mqtt type="connect" clean_start="true" keepalive="60"></mqtt></request>
      <transaction name="publishing">
        <for from="1" to="{workload.messages // CONNECTIONS}" var="n"><request>{publish}</request></for>
      </transaction>
      <request><mqtt type="disconnect"></mqtt></request>
    </session>
  </sessions>
</tsung>
"""

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        with tempfile.TemporaryDirectory(prefix="brokermark-compare-") as folder:
            scenario = Path(folder) / "tsung.xml"
            scenario.write_text(self.scenario(workload))
            # Its Erlang listens to other nodes, and leaves a port mapper behind.
            port = int(self.port) + 1
            loopback = [f"HOME={folder}", "ERL_EPMD_ADDRESS=127.0.0.1", f"ERL_EPMD_PORT={port}"]
            loopback.append("ERL_FLAGS=-kernel inet_dist_use_interface {127,0,0,1}")
            try:
                process = measure.run(["env", *loopback, "tsung", "-f", str(scenario), "-l", f"{folder}/log", "-n", "start"])
            finally:
                measure.check(["epmd", "-port", str(port), "-kill"])
            [log] = Path(folder).glob("log/*/tsung.log")
            printed = log.read_text()
        acknowledged = re.findall(r"^stats: mqtt_server_pubacked \S+ (\d+)$", printed, re.MULTILINE)
        publishing = re.findall(r"^stats: tr_publishing (\d+) (\S+) ", printed, re.MULTILINE)
        expected = workload.messages // CONNECTIONS * CONNECTIONS
        if not acknowledged or not publishing or int(acknowledged[-1]) != expected:
            raise PeerError(f"{self.name} did not have {expected} messages acknowledged:\n{printed[-2000:]}")
        # Each line has the users that ended in its interval.
        users = sum(int(count) for count, _ in publishing)
        duration_ms = sum(int(count) * float(mean) for count, mean in publishing) / users
        if users != CONNECTIONS:
            raise PeerError(f"{users} users of {self.name} ended, not {CONNECTIONS}:\n{printed[-2000:]}")
        return expected / duration_ms * 1000, f"{expected} acknowledgements in {duration_ms:.0f} ms", process
