"""Reads a stream from its beginning with RbFly, prints how long that took, and deletes the stream.

    rabbitmq_consume.py HOST:PORT STREAM MESSAGES

The time is from the first message to the last.
"""

import sys
import time

import uvloop
from rbfly import streams


@streams.connection
async def consume(client, stream: str, messages: int) -> float:
    try:
        left, begin = messages, 0.0
        async for _ in client.subscribe(stream, offset=streams.Offset.FIRST):
            if left == messages:
                begin = time.monotonic()
            left -= 1
            if left == 0:
                break
        return time.monotonic() - begin
    finally:
        await client.delete_stream(stream)


def main() -> None:
    address, stream, messages = sys.argv[1:]
    client = streams.streams_client(f"rabbitmq-stream://guest:guest@{address}")
    seconds = uvloop.run(consume(client, stream, int(messages)))
    print(f"{messages} messages in {seconds:.6f} s")


main()
