"""Reads streams from their beginning with RbFly until nothing comes for a while. Prints what ReadStream.java does, but for
ids of messages, which RbFly does not tell.

Arguments: HOST:PORT amqp|binary STREAM…
"""

import asyncio
import sys

from rbfly import streams


def text(value):
    return value.hex() if isinstance(value, bytes) else str(value)


@streams.connection
async def read(client, amqp, names):
    for name in names:
        try:
            async for body in client.subscribe(name, offset=streams.Offset.FIRST, timeout=2, amqp=amqp):
                context = streams.get_message_ctx()
                headers = sorted((context.app_properties or {}).items()) if amqp else []
                print(name, context.stream_offset, text(body), "-", *(f"{key}={text(value)}" for key, value in headers))
        except TimeoutError:
            pass


address, kind, *names = sys.argv[1:]
client = streams.streams_client(f"rabbitmq-stream://guest:guest@{address}")
asyncio.run(read(client, kind == "amqp", names))
