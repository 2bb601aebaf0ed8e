"""The brokers that parts load by scenarios of their own, and how a scenario is written."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Broker:
    server: str | None  # of scripts/brokers
    keys: dict[str, object]  # a value that begins with $ is in the server's environment, $$ the first of a list
    bounded: dict[str, object] = field(default_factory=dict)  # so that the data of a long run fits into memory


BROKERS = {
    "null": Broker(None, {"broker.kind": "null"}),
    "kafka": Broker(
        "kafka",
        {"broker.kind": "kafka", "broker.address": "$BROKERMARK_KAFKA", "topology.partitions": 4},
        {"topology.config": {"retention.bytes": 1 << 30, "segment.bytes": 1 << 27, "file.delete.delay.ms": 100, "max.message.bytes": 2 << 20}},
    ),
    "pulsar": Broker(
        "pulsar",
        {"broker.kind": "pulsar", "broker.address": "$BROKERMARK_PULSAR", "broker.pulsar.admin": "$BROKERMARK_PULSAR_ADMIN"},
    ),
    "nats": Broker("nats", {"broker.kind": "nats", "broker.address": "$BROKERMARK_NATS"}, {"broker.nats.retention": "interest"}),
    "redis": Broker("redis", {"broker.kind": "redis", "broker.address": "$BROKERMARK_REDIS"}, {"broker.redis.max_length": 5_000_000}),
    "mqtt": Broker("mqtt", {"broker.kind": "mqtt", "broker.address": "$BROKERMARK_MQTT"}),
    "nsq": Broker(
        "nsq",
        {"broker.kind": "nsq", "broker.address": "$$BROKERMARK_NSQ", "broker.nsq.http_addresses": ["$$BROKERMARK_NSQ_HTTP"]},
    ),
    "rabbitmq": Broker("rabbitmq", {"broker.kind": "rabbitmq", "broker.address": "$BROKERMARK_RABBITMQ_AMQP"}),
    "rabbitmq-stream": Broker(
        "rabbitmq",
        {"broker.kind": "rabbitmq-stream", "broker.address": "$BROKERMARK_RABBITMQ"},
        {"broker.rabbitmq-stream.max_length": "1GiB", "broker.rabbitmq-stream.segment_size": "50MB"},
    ),
}


def servers(broker: str) -> tuple[str, ...]:
    server = BROKERS[broker].server
    return (server,) if server else ()


def toml(keys: dict[str, object]) -> str:
    """A scenario of dotted keys. JSON writes strings, numbers and lists as TOML does."""
    return "".join(f"{key} = {value(found)}\n" for key, found in keys.items())


def value(found: object) -> str:
    if isinstance(found, dict):
        return "{ " + ", ".join(f'"{key}" = {value(inner)}' for key, inner in found.items()) + " }"
    return json.dumps(found)


def scenario(folder: Path, broker: str, environment: dict[str, str], keys: dict[str, object]) -> Path:
    """Writes a scenario of this broker, named by what it is for."""

    def filled(found: object) -> object:
        if isinstance(found, list):
            return [filled(one) for one in found]
        name = re.fullmatch(r"\$(\$?)(\w+)", found) if isinstance(found, str) else None
        if name is None:
            return found
        return environment[name[2]].split(",")[0] if name[1] else environment[name[2]]

    file = folder / f"{broker}.toml"
    file.write_text(toml({key: filled(found) for key, found in (BROKERS[broker].keys | keys).items()}))
    return file
