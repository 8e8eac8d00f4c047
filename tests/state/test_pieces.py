"""`Pieces`: added to in constant time, safe at any length."""

from __future__ import annotations

import gc
import itertools

from hypothesis import given
from hypothesis import strategies as st

from rxworker.state.block import Pieces, joined


@given(st.lists(st.text()))
def test_it_is_the_list_of_what_was_added(pieces: list[str]) -> None:
    chain: Pieces[str] = Pieces()
    for piece in pieces:
        chain = chain.add(piece)
    assert list(chain) == pieces
    assert len(chain) == len(pieces)
    assert bool(chain) == bool(pieces)
    assert joined(chain) == "".join(pieces)


def test_adding_changes_nothing_that_was_there() -> None:
    one = Pieces[str]().add("a")
    assert (one.add("b"), one.add("c"), one) == (
        Pieces[str]().add("a").add("b"),
        Pieces[str]().add("a").add("c"),
        Pieces[str]().add("a"),
    )


def test_equal_pieces_are_equal_and_others_are_not() -> None:
    assert Pieces[str]().add("a") == Pieces[str]().add("a")
    assert hash(Pieces[str]().add("a")) == hash(Pieces[str]().add("a"))
    assert Pieces[str]().add("a") != Pieces[str]().add("b")
    assert Pieces[str]().add("a") != ["a"]


def test_two_hundred_thousand_pieces_are_shown_compared_joined_and_freed() -> None:
    def long() -> Pieces[str]:
        chain: Pieces[str] = Pieces()
        for _ in range(200_000):
            chain = chain.add("x")
        return chain

    chain = long()
    assert chain == long()
    assert repr(chain).startswith("Pieces(['x', 'x'")
    assert joined(chain) == "x" * 200_000
    del chain
    gc.collect()  # a chain so long is freed without overflowing the stack


@given(st.text(max_size=20), st.lists(st.integers(0, 20), max_size=6))
def test_how_a_text_was_cut_has_no_effect(text: str, cuts: list[int]) -> None:
    """Deltas may have been merged on their way, and the state is the same."""
    chain: Pieces[str] = Pieces()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for begin, end in itertools.pairwise(places):
        chain = chain.add(text[begin:end])
    whole = Pieces[str]().add(text)
    assert chain == whole
    assert hash(chain) == hash(whole)
    assert chain != whole.add("x")


def test_other_pieces_are_compared_one_by_one() -> None:
    assert Pieces[int]().add(1).add(2) != Pieces[int]().add(12)
    assert Pieces[int]().add(1) == Pieces[int]().add(1)
    assert Pieces[object]().add("a").add(1) != Pieces[object]().add("a1")
