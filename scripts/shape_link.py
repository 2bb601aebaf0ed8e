"""Delay, loss and rate of what a host of `scripts/hosts` sends, in user space: for kernels without netem (module sch_netem).

    python3 shape_link.py LINK PORT [delay TIME] [loss PERCENT] [rate BITS]

LINK is the end of the host's virtual link on this machine, PORT the name of the port of the bridge that takes its place. What the host
sends goes to PORT as `tc netem` would have it, in its words: `delay 300ms loss 1% rate 100mbit`. What comes from PORT goes to the
host at once. The program prints a line when PORT is there, and ends with SIGTERM; PORT goes with it.
"""

import collections
import contextlib
import errno
import fcntl
import random
import select
import signal
import socket
import struct
import sys
import time

# linux/if_tun.h, linux/if_ether.h
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
ETH_P_ALL = 0x0003
# linux/if_packet.h. A header before each frame says which checksum is left to do and where a frame that is longer than the link
# takes is to be divided: systems leave both to their links.
SOL_PACKET, PACKET_VNET_HDR = 263, 15
HEADER = 10
# A frame that this machine has sent itself.
PACKET_OUTGOING = 4

# netem's own default for frames that wait: `limit 1000`.
LIMIT = 1000
FRAME = HEADER + 14 + (1 << 16)

SCALES = {
    "delay": {"us": 1e-6, "ms": 1e-3, "s": 1.0},
    "loss": {"%": 0.01},
    "rate": {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "bit": 1.0},
}


def quantity(name, text):
    """A number with its unit, in seconds, as a share of one or in bits per second."""
    for unit, scale in SCALES[name].items():
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdigit():
            return float(number) * scale
    sys.exit(f"{name} {text}: it takes a number with one of the units {', '.join(SCALES[name])}")


def asked(words):
    """The words of netem that are known here."""
    shape = {"delay": 0.0, "loss": 0.0, "rate": None}
    if len(words) % 2 != 0:
        sys.exit(f"{words[-1]} has no value")
    for name, text in zip(words[::2], words[1::2]):
        if name not in shape:
            sys.exit(f"{name} needs netem in the kernel; without it there are: {', '.join(shape)}")
        shape[name] = quantity(name, text)
    return shape


def tap(name):
    port = open("/dev/net/tun", "r+b", buffering=0)
    fcntl.ioctl(port, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    return port


@contextlib.contextmanager
def taken_off():
    """A host that `scripts/hosts cut` took off the network neither sends nor receives."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENETDOWN, errno.ENOBUFS):
            raise


def main(link, name, *words):
    shape = asked(words)
    # A signal ends the program between two frames.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    host = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    host.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    host.bind((link, ETH_P_ALL))
    port = tap(name)
    print("up", flush=True)
    # Frames with the time at which they leave, in order.
    waiting = collections.deque()
    free_at = 0.0
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([host, port], [], [], pause)
        if port in readable:
            frame = port.read(FRAME)
            with taken_off():
                host.send(frame)
        if host in readable:
            frame, kind = b"", PACKET_OUTGOING
            with taken_off():
                frame, (_, _, kind, _, _) = host.recvfrom(FRAME)
            if kind != PACKET_OUTGOING and len(waiting) < LIMIT and random.random() >= shape["loss"]:
                now = time.monotonic()
                if shape["rate"]:
                    free_at = max(free_at, now) + 8 * (len(frame) - HEADER) / shape["rate"]
                waiting.append((max(free_at, now) + shape["delay"], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            port.write(waiting.popleft()[1])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
