"""Ports for servers that a test starts, ends and starts again."""

from __future__ import annotations

import random
import socket

_CHOOSE = random.SystemRandom()  # hypothesis seeds the others: each worker would choose the same


def free_port() -> int:
    """A port on which no program listens.

    It is below those that the system gives to connections and to servers without a port, so that none of them takes it
    meanwhile.
    """
    while True:
        port = _CHOOSE.randrange(12_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
