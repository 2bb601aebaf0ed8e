"""Another client of Kafka, kafka-python.

    read HOST:PORT TOPIC MESSAGES   prints the time, place, headers, key and value of each message, as Kafka's console consumer does
    take HOST:PORT TOPIC MESSAGES   prints the value of each message in hexadecimal digits, and removes the topic
    write HOST:PORT TOPIC MESSAGES  writes so many JSON objects with each compression
"""

import json
import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

COMPRESSIONS = [None, "gzip", "snappy", "lz4", "zstd"]


def text(value):
    return "(null)" if value is None else value.decode()


def messages_of(address, topic, messages):
    consumer = KafkaConsumer(
        bootstrap_servers=address,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        check_crcs=True,
        consumer_timeout_ms=60_000,
    )
    consumer.assign([TopicPartition(topic, partition) for partition in consumer.partitions_for_topic(topic)])
    return (message for _, message in zip(range(messages), consumer))


def take(address, topic, messages):
    for message in messages_of(address, topic, messages):
        print(message.value.hex())
    KafkaAdminClient(bootstrap_servers=address).delete_topics([topic])


def read(address, topic, messages):
    for message in messages_of(address, topic, messages):
        headers = ",".join(f"{key}:{text(value)}" for key, value in message.headers)
        place = f"Partition:{message.partition}\tOffset:{message.offset}"
        print(f"CreateTime:{message.timestamp}\t{place}\t{headers}\t{text(message.key)}\t{text(message.value)}")


def write(address, topic, messages):
    for compression in COMPRESSIONS:
        producer = KafkaProducer(bootstrap_servers=address, compression_type=compression, linger_ms=20)
        for number in range(messages):
            value = json.dumps({"compression": compression, "number": number, "text": "again " * 20})
            producer.send(topic, key=str(number).encode(), value=value.encode(), headers=[("tenant", b"a")])
        producer.close()


what, address, topic, messages = sys.argv[1:]
{"read": read, "take": take, "write": write}[what](address, topic, int(messages))
