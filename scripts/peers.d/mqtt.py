"""MQTT: brokermark beside Tsung, on one server.

There is one workload: each of 100 connections has one message of QoS 1 in flight, which is all that Tsung can. Its users publish as many messages each.
BROKERMARK_MQTT_SIZE is the message size in bytes, 100 by default.

Tsung speaks MQTT 3.1, brokermark MQTT 5. Tsung's rate leaves out its start, which its CPU time has. It sums response times up, and records no distribution
of them; a message is sent when the one before is acknowledged, as in brokermark's closed loop.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import measure
from brokermark import Brokermark
from comparison import Comparison, Workload
from measure import PeerError, Process

CONNECTIONS = 100
TOPIC = "compare-peers"


def comparison(messages: int, server: dict[str, str]) -> Comparison:
    size = int(os.environ.get("BROKERMARK_MQTT_SIZE", "100"))
    address = server["BROKERMARK_MQTT"]
    workload = Workload(
        messages=messages,
        payload_bytes=size,
        partitions=1,
        acks="1",
        linger_ms=0,
        batch_bytes=size,
        queue_messages=1,
    )
    settings = {
        "broker.address": address,
        "broker.connections": CONNECTIONS,
        "producers.count": CONNECTIONS,
        "producers.batch": 1,
        "producers.in_flight": 1,
        "payload.size": size,
        "topology.name": TOPIC,
    }
    ours = Brokermark("configs/examples/mqtt-throughput.toml", settings)
    return Comparison(
        broker="mqtt",
        setting=f"{size} B, QoS 1, {CONNECTIONS} connections, one message in flight on each",
        workload=workload,
        peers=[ours, Tsung(address)],
        warm_up=lambda: ours.run(workload) and None,
    )


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
