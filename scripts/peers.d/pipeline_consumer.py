"""A consumer of the shape of the published one: one process, kafka-python, a batch handed to a pool of threads that write it
to Redis (one pipeline of SETs in MULTI/EXEC) and then to MongoDB (one ordered insert_many).

Run by pipeline.py in an environment of its own. Unlike the published one it loses nothing: a batch is a list of its own, and
it is committed after it was written. It ends when it has MESSAGES, and prints one line of JSON.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from kafka import KafkaConsumer

WRITERS = 2


def main() -> None:
    address, topic, group, wanted, batch_size, redis_address, mongodb_address, collection = sys.argv[1:]
    wanted, batch_size = int(wanted), int(batch_size)
    write = writer(redis_address, mongodb_address, collection) if redis_address else None
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=batch_size,
    )
    consumed, first, batch, pending = 0, None, [], []
    with ThreadPoolExecutor(WRITERS) as pool:
        while consumed < wanted:
            for records in consumer.poll(timeout_ms=1000).values():
                first = first or time.monotonic()
                for record in records:
                    received = time.time()
                    message = json.loads(record.value)
                    batch.append((record.value, message, received, received - message["timestamp"]))
                consumed += len(records)
            if write and (len(batch) >= batch_size or consumed >= wanted):
                pending.append(pool.submit(write, batch))
                batch = []
                if len(pending) > 2 * WRITERS:
                    pending.pop(0).result()
            elif not write and len(batch) >= batch_size:
                batch = []
        for future in pending:
            future.result()
    elapsed = time.monotonic() - first
    consumer.commit()
    consumer.close()
    print(json.dumps({"consumed": consumed, "seconds": elapsed}))


def writer(redis_address: str, mongodb_address: str, collection: str):
    import pymongo
    import redis

    host, port = redis_address.split(":")
    cache = redis.Redis(host, int(port))
    records = pymongo.MongoClient(f"mongodb://{mongodb_address}/?directConnection=true")["perf_test"][collection]

    def write(batch) -> None:
        pipeline = cache.pipeline(transaction=True)
        for raw, message, _, _ in batch:
            pipeline.set(message["device_id"], raw)
        pipeline.execute()
        records.insert_many(
            [
                {
                    "device_id": message["device_id"],
                    "value": message["value"],
                    "producer_ts": message["timestamp"],
                    "consumer_ts": received,
                    "latency": latency,
                }
                for _, message, received, latency in batch
            ]
        )

    return write


if __name__ == "__main__":
    main()
