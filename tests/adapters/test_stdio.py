"""Lines over file descriptors: pipes that a test holds the other ends of."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from rxworker.adapters.stdio import LineStreams


async def test_lines_are_read_to_the_end_and_a_long_one_is_dropped() -> None:
    source, inward = os.pipe()
    outward, sink = os.pipe()
    streams = LineStreams(source, sink, limit=8)
    os.write(inward, b"one\r\n\n123456789\n" + b"x" * 4000 + b"\ntwo\nlast")
    os.close(inward)
    async with asyncio.timeout(60):
        lines = [line async for line in streams.lines()]
    assert lines == [b"one\r", b"", None, None, b"two", b"last"]
    await streams.write(b"told")
    assert os.read(outward, 100) == b"told\n"
    os.close(outward)
    with pytest.raises(BrokenPipeError):
        await streams.write(b"told to nobody")
    os.close(sink)


def test_only_lines_reach_standard_output() -> None:
    program = """
import asyncio, os
from rxworker.adapters.stdio import standard_streams

async def main():
    with standard_streams(limit=100) as streams:
        print("printed")
        os.system("echo by a child; cat")
        async for line in streams.lines():
            await streams.write(line.upper())
    print("after")

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], input="a\nb\n", capture_output=True, text=True, timeout=60)
    assert done.stdout == "A\nB\nafter\n", done.stderr
    assert set(done.stderr.split("\n")) >= {"printed", "by a child"}
