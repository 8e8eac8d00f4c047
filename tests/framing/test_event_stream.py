"""Amazon's event stream.

Messages come out whole and unchanged, however the bytes are cut, and damaged ones are refused.
"""

from __future__ import annotations

from itertools import pairwise
from struct import pack
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.errors import RemoteProtocolError
from rxworker.framing import EventStreamDecoder
from rxworker.framing.event_stream import EventStreamMessage

VALUES = {0: b"", 2: b"\x07", 3: b"\x00\x07", 4: bytes(4), 5: bytes(8), 6: b"\x00\x02ab", 8: bytes(8), 9: bytes(16)}


def message(payload: bytes, headers: dict[str, str], others: tuple[int, ...] = ()) -> bytes:
    """A message as the service writes it, with headers of other types than text beside."""
    head = b""
    for name, value in headers.items():
        head += pack(">B", len(name.encode())) + name.encode() + pack(">BH", 7, len(value.encode()))
        head += value.encode()
    for kind in others:
        name = f"x{kind}".encode()
        head += pack(">B", len(name)) + name + pack(">B", kind) + VALUES[kind]
    prelude = pack(">II", 16 + len(head) + len(payload), len(head))
    whole = prelude + pack(">I", crc32(prelude)) + head + payload
    return whole + pack(">I", crc32(whole))


HEADERS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(lambda t: len(t.encode()) < 30), st.text(max_size=20), max_size=3
)
MESSAGES = st.lists(st.tuples(st.binary(max_size=50), HEADERS), max_size=5)


@given(MESSAGES, st.lists(st.integers(0, 400)))
def test_messages_come_out_as_they_were_written_however_they_are_cut(
    messages: list[tuple[bytes, dict[str, str]]], cuts: list[int]
) -> None:
    data = b"".join(message(payload, headers) for payload, headers in messages)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    decoder = EventStreamDecoder()
    found = [one for start, end in pairwise(places) for one in decoder.feed(data[start:end])]
    assert found == [EventStreamMessage(headers, payload) for payload, headers in messages]
    assert decoder.finish() == []


def test_headers_of_other_types_are_skipped() -> None:
    data = message(b"{}", {":event-type": "metadata"}, tuple(VALUES))
    assert EventStreamDecoder().feed(data) == [EventStreamMessage({":event-type": "metadata"}, b"{}")]


def test_a_change_of_any_byte_is_noticed_and_the_messages_before_it_are_kept() -> None:
    first, second = message(b'{"a": 1}', {"k": "v"}), message(b'{"b": 2}', {"k": "w"})
    for place in range(len(second)):
        damaged = bytearray(second)
        damaged[place] ^= 1
        decoder = EventStreamDecoder()
        with pytest.raises(RemoteProtocolError, match="is damaged"):
            decoder.feed(first + bytes(damaged))
        assert decoder.finish() == [EventStreamMessage({"k": "v"}, b'{"a": 1}')]
        with pytest.raises(RemoteProtocolError, match="is damaged"):
            decoder.feed(first)


def test_headers_that_cannot_be_read_are_refused() -> None:
    for head in (b"\x05ab", b"\x01a\x0b", b"\x01a\x07\x00\x09b", b"\x01a", b"\x01\xff\x00"):
        prelude = pack(">II", 16 + len(head), len(head))
        whole = prelude + pack(">I", crc32(prelude)) + head
        with pytest.raises(RemoteProtocolError, match="is damaged"):
            EventStreamDecoder().feed(whole + pack(">I", crc32(whole)))


def test_a_message_above_the_limit_is_refused_when_its_length_is_known() -> None:
    data = message(bytes(100), {})
    decoder = EventStreamDecoder(limit=100)
    with pytest.raises(RemoteProtocolError, match="more than 100 bytes"):
        decoder.feed(data[:12])
    assert EventStreamDecoder(limit=116).feed(data)
