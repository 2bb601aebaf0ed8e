"""Publishes to a topic of one partition with aiokafka and prints how long that took.

    kafka_publish.py HOST:PORT TOPIC BATCH MESSAGES

Every batch is acknowledged before the next is sent, as in RbFly's performance report, whose messages these are.
"""

import asyncio
import sys
import time

import msgpack
import uvloop
from aiokafka import AIOKafkaProducer


async def publish(address: str, topic: str, size: int, messages: int) -> float:
    bodies = [f"{number:010d}".encode() for number in range(messages)]
    batches = [bodies[start : start + size] for start in range(0, messages, size)]
    async with AIOKafkaProducer(bootstrap_servers=address, acks=1, linger_ms=0) as producer:
        await producer.partitions_for(topic)
        begin = time.monotonic()
        if size == 1:
            for (body,) in batches:
                await producer.send_and_wait(topic, msgpack.packb(body))
        else:
            for batch in batches:
                made = producer.create_batch()
                for body in batch:
                    made.append(key=None, value=msgpack.packb(body), timestamp=None)
                made.close()
                await (await producer.send_batch(made, topic, partition=0))
        return time.monotonic() - begin


address, topic, size, messages = sys.argv[1:]
seconds = uvloop.run(publish(address, topic, int(size), int(messages)))
print(f"{messages} messages in {seconds:.6f} s")
