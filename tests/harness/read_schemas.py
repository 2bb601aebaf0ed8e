"""Reads messages with a schema id by other implementations: fastavro, Google's protobuf, and jsonschema.

    read_schemas.py avro SCHEMA
    read_schemas.py json SCHEMA
    read_schemas.py protobuf DESCRIPTORS MESSAGE INDEX...   a set of files' descriptors, and the message that is expected

Messages are on standard input, one a line in hexadecimal digits. Prints the id and the record of each as JSON. Fails where a message is not
as these implementations would write the record.
"""

import io
import json
import struct
import sys


def avro(schema):
    import fastavro

    parsed = fastavro.parse_schema(json.loads(open(schema).read()))

    def read(body):
        stream = io.BytesIO(body)
        record = fastavro.schemaless_reader(stream, parsed)
        assert stream.read() == b"", "something follows the record"
        again = io.BytesIO()
        fastavro.schemaless_writer(again, parsed, record)
        assert again.getvalue() == body, "fastavro writes it in another way"
        return record

    return read


def json_schema(schema):
    import jsonschema

    validator = jsonschema.Draft7Validator(json.loads(open(schema).read()))

    def read(body):
        record = json.loads(body)
        validator.validate(record)
        return record

    return read


def varint(body, at):
    value = shift = 0
    while True:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def protobuf(descriptors, message, *index):
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(open(descriptors, "rb").read()).file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(message))

    def read(body):
        count, at = varint(body, 0)
        indexes = []
        for _ in range(count):
            number, at = varint(body, at)
            indexes.append(number)
        assert (indexes or [0]) == [int(number) for number in index], f"the message is number {indexes}"
        record = kind.FromString(body[at:])
        assert record.SerializeToString(deterministic=True) == body[at:], "protobuf writes it in another way"
        return json_format.MessageToDict(record)

    return read


read = {"avro": avro, "json": json_schema, "protobuf": protobuf}[sys.argv[1]](*sys.argv[2:])
for line in sys.stdin:
    message = bytes.fromhex(line)
    magic, number = struct.unpack(">bI", message[:5])
    assert magic == 0
    print(json.dumps({"id": number, "record": read(message[5:])}, default=str))
