from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from rxworker.ui.terminal.section import NARROWEST, TextSection

TEXT = st.text(alphabet="ab \n\t京é", max_size=80)


class Wrapped(TextSection):
    def __init__(self, width: int, text: str = "") -> None:
        super().__init__("body")
        self.resize(width)
        self.append(text)

    @property
    def rows(self) -> list[str]:
        return [line for _, line in self.lines]


@example("a京京\t", [3], 4)
@given(TEXT, st.lists(st.integers(0, 80)), st.integers(NARROWEST, 20))
def test_text_that_comes_in_pieces_has_the_same_lines(text: str, cuts: list[int], width: int) -> None:
    whole, grown = Wrapped(width, text), Wrapped(width)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in pairwise(places):
        grown.append(text[start:end])
    assert grown.rows == whole.rows
    assert grown.text == text


@given(TEXT, st.integers(NARROWEST, 20))
def test_no_line_is_too_wide_and_no_word_is_lost(text: str, width: int) -> None:
    wrapped = Wrapped(width, text)
    assert all(cell_len(line.rstrip(" ")) <= width for line in wrapped.rows)
    shown = "".join(wrapped.rows).replace(" ", "")
    assert shown == text.replace(" ", "").replace("\n", "").replace("\t", "")


@given(TEXT, st.integers(NARROWEST, 20), st.integers(NARROWEST, 20))
def test_another_width_gives_the_lines_of_that_width(text: str, before: int, after: int) -> None:
    resized, made = Wrapped(before, text), Wrapped(after, text)
    resized.resize(after)
    assert resized.rows == made.rows


def test_adding_to_a_long_line_does_not_break_it_anew() -> None:
    wrapped = Wrapped(10, "word " * 20)
    kept = wrapped.rows[:-1]
    wrapped.append("more")
    assert wrapped.rows[: len(kept)] == kept


def test_paragraphs_and_empty_lines_stay() -> None:
    wrapped = Wrapped(10, "a\n\nb\n")
    assert wrapped.rows == ["a", "", "b", ""]


def test_a_text_can_begin_anew() -> None:
    wrapped = Wrapped(10, "one")
    wrapped.replace([("", "two")])
    assert (wrapped.rows, wrapped.text) == (["two"], "two")
