from __future__ import annotations

import reactivex
from reactivex import operators as ops

from rxworker.operators.begin import begin_with


def test_an_item_of_ones_own_comes_before_those_of_the_source() -> None:
    ours, plain = list[int](), list[int]()
    source = reactivex.of(2, 3)
    begin_with(1, source).subscribe(ours.append)
    source.pipe(ops.start_with(1)).subscribe(plain.append)
    assert ours == plain == [1, 2, 3]


def test_who_leaves_at_the_first_item_is_given_nothing_else() -> None:
    seen: list[int] = []
    begin_with(1, reactivex.of(2, 3)).pipe(ops.take(1)).subscribe(seen.append)
    assert seen == [1]
