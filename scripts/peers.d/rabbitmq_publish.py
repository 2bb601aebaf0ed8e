"""Publishes with one of the Python clients for RabbitMQ streams and prints how long that took.

    rabbitmq_publish.py rbfly|rstream HOST:PORT BATCH MESSAGES

Every batch is confirmed before the next is sent, as in RbFly's performance report.
"""

import asyncio
import os
import sys
import time

import uvloop

PUBLISHER = "compare"


def bodies(messages: int, batch: int):
    """Batches of the 10-byte strings that the report describes, made before they are timed."""
    made = [f"{number:010d}".encode() for number in range(messages)]
    return [made[start : start + batch] for start in range(0, messages, batch)]


async def rbfly(host: str, port: int, stream: str, batches: list) -> float:
    from rbfly import streams

    @streams.connection
    async def publish(client) -> float:
        await client.create_stream(stream)
        try:
            kind = streams.Publisher if len(batches[0]) == 1 else streams.PublisherBatchFast
            async with client.publisher(stream, name=PUBLISHER, cls=kind) as publisher:
                begin = time.monotonic()
                if kind is streams.Publisher:
                    for (body,) in batches:
                        await publisher.send(body)
                else:
                    for batch in batches:
                        for body in batch:
                            publisher.batch(body)
                        await publisher.flush()
                return time.monotonic() - begin
        finally:
            await client.delete_stream(stream)

    return await publish(streams.streams_client(f"rabbitmq-stream://guest:guest@{host}:{port}"))


async def rstream(host: str, port: int, stream: str, batches: list) -> float:
    from rstream import AMQPMessage, Producer

    async with Producer(host, port, username="guest", password="guest") as producer:
        await producer.create_stream(stream)
        try:
            begin = time.monotonic()
            for batch in batches:
                # What its `send_wait` does for one message; nothing public awaits the confirmations of several.
                messages = [AMQPMessage(body=body) for body in batch]
                await producer._send_batch(stream, messages, publisher_name=PUBLISHER, sync=True, timeout=30)
            return time.monotonic() - begin
        finally:
            await producer.delete_stream(stream)


def main() -> None:
    client, address, batch, messages = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    publish = {"rbfly": rbfly, "rstream": rstream}[client]
    batches = bodies(int(messages), int(batch))
    seconds = uvloop.run(publish(host, int(port), f"compare-{os.getpid()}", batches))
    print(f"{messages} messages in {seconds:.6f} s")


main()
