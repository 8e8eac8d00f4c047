"""Writing to a terminal that is slow, deaf, or gone."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.ui.terminal.app import Output, Pastes
from rxworker.ui.terminal.lifecycle import on_signals

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are not known there", allow_module_level=True)

SOON = 60.0
MUCH = "word " * 200_000


class Pair:
    """Both ends of a terminal."""

    def __init__(self) -> None:
        self.ours, self.theirs = os.openpty()
        self.output = Output(self.theirs)

    def write_much(self) -> threading.Thread:
        """Begin to write more than a terminal holds."""
        writing = threading.Thread(target=self.output.write, args=(MUCH,), daemon=True)
        writing.start()
        os.read(self.ours, 1)
        return writing

    def close(self) -> None:
        self.output.close()
        for fd in {self.ours, self.theirs} - {-1}:
            os.close(fd)


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_what_is_written_arrives(pair: Pair) -> None:
    pair.output.write("Grüße")
    pair.output.flush()
    assert os.read(pair.ours, 100).decode() == "Grüße"
    assert os.get_blocking(pair.theirs), "the end that others share is left as it is"
    assert not pair.output.is_gone


def test_a_slow_reader_gets_all_of_it(pair: Pair) -> None:
    writing = pair.write_much()
    read = 1
    while read < len(MUCH):
        read += len(os.read(pair.ours, 65536))
    writing.join(SOON)
    assert not writing.is_alive()
    assert not pair.output.is_gone


@pytest.mark.parametrize("call", ["limit_wait", "give_up"])
def test_who_waits_for_a_deaf_terminal_can_be_called_off(pair: Pair, call: str) -> None:
    writing = pair.write_much()
    getattr(pair.output, call)()
    writing.join(SOON)
    assert not writing.is_alive()
    assert pair.output.is_gone


def test_one_that_waits_for_a_terminal_receives_its_end(pair: Pair) -> None:
    writing = pair.write_much()
    os.close(pair.ours)
    pair.ours = -1
    writing.join(SOON)
    assert not writing.is_alive()
    assert pair.output.is_gone
    assert pair.output.write("nobody") == 6


def test_signals_that_are_ignored_stay_so() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with on_signals(heard.append):
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == [signal.SIGTERM]


def test_other_threads_receive_no_signals() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def look() -> None:
        with on_signals(seen.append):
            seen.append(signal.getsignal(signal.SIGTERM))

    looking = threading.Thread(target=look)
    looking.start()
    looking.join(SOON)
    assert seen == [before]


@given(
    st.lists(st.sampled_from(["\x1b", "\x1b[200~", "\x1b[201~", "[201~", "\x1b[20", "1~", "a", "\r"])),
    st.lists(st.integers(0, 60)),
)
def test_pastes_are_the_same_under_every_cut_and_have_no_escape_characters(parts: list[str], cuts: list[int]) -> None:
    text, whole, cut = "".join(parts), Pastes(), Pastes()
    ends = [0, *sorted(min(each, len(text)) for each in cuts), len(text)]
    passed = whole.feed(text)
    assert "".join(cut.feed(text[a:b]) for a, b in itertools.pairwise(ends)) == passed
    outside, *pastes = passed.split("\x1b[200~")
    assert text.startswith(outside)
    for paste in pastes:
        inside, end, _ = paste.partition("\x1b[201~")
        assert "\x1b" not in inside
        assert end or paste == pastes[-1]
