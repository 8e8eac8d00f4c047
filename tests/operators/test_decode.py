"""`decode` lifts a decoder."""

from __future__ import annotations

from collections.abc import Sequence

from reactivex import operators as ops

from rxworker.operators import decode
from rxworker.operators.kernel import Source
from rxworker.testing.marbles import Marbles


class Letters:
    """Gives each letter; keeps capitals to the end; refuses ``!`` when fed and ``?`` when asked for the rest."""

    def __init__(self) -> None:
        self.rest: list[str] = []

    def feed(self, data: str) -> Sequence[str]:
        if "!" in data:
            raise ValueError("!")
        self.rest.extend(letter for letter in data if not letter.islower())
        return [letter for letter in data if letter.islower()]

    def finish(self) -> Sequence[str]:
        if "?" in self.rest:
            raise ValueError("?")
        return self.rest


def test_an_item_completes_none_one_or_several(test: Marbles) -> None:
    source = test.hot("            -X--ab---cY----|")
    expected = test.expected("-----(a,b)c----(X,Y,|)", {c: c for c in "abcXY"})
    seen = test.observe(source.pipe(decode(Letters)))
    assert [r.value for r in seen] == [r.value for r in expected]
    assert [r.time - 200 for r in seen] == [4, 4, 9, 15, 15, 15]


def test_what_the_decoder_raises_ends_the_stream(test: Marbles) -> None:
    source = test.hot("       -a-!-b-|")
    expected = test.expected("-a-#", error=ValueError("!"))
    assert test.observe(source.pipe(decode(Letters))) == expected
    assert source.subscriptions == test.subscriptions("^--!")


def test_what_the_decoder_raises_at_the_end_is_the_end(test: Marbles) -> None:
    source = test.hot("       -a-?-|")
    expected = test.expected("-a---#", error=ValueError("?"))
    assert test.observe(source.pipe(decode(Letters))) == expected


def test_an_error_passes_without_the_rest(test: Marbles) -> None:
    source = test.hot("       -a-X-#")
    expected = test.expected("-a---#")
    assert test.observe(source.pipe(decode(Letters))) == expected


def test_nothing_is_fed_after_a_failure() -> None:
    fed: list[str] = []

    class Watching(Letters):
        def feed(self, data: str) -> Sequence[str]:
            fed.append(data)
            return super().feed(data)

    source: Source[str] = Source()
    errors: list[Exception] = []
    source.pipe(decode(Watching), ops.materialize()).subscribe(lambda _: None, errors.append)
    source.on_next("!")
    source.on_next("a")
    assert fed == ["!"]


def test_what_making_the_decoder_raises_is_an_error_of_the_stream() -> None:
    def refuse() -> Letters:
        raise ValueError("no decoder")

    test = Marbles()
    seen = test.observe(test.hot("-a-|").pipe(decode(refuse)))
    assert seen == test.expected("#", error=ValueError("no decoder"))
