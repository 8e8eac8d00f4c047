"""An operator of your own: whole sentences instead of pieces of text. It composes with ours and with reactivex's.

Needs the environment variable ``ANTHROPIC_API_KEY``.
"""

import asyncio
import re

from reactivex import Observable, operators as ops

from rxworker import Worker
from rxworker.operators import Operator, text_deltas
from rxworker.providers import Anthropic

END = re.compile(r"(?<=[.!?])\s+")


def sentences() -> Operator[str, str]:
    """Whole sentences, out of the pieces of a text; what is left over at the end is the last one.

        -Hel-lo. -How a-re you?|
        [ sentences() ]
        ------Hello.-----------How are you?|
    """

    def cut(state: tuple[list[str], str], piece: str) -> tuple[list[str], str]:
        *whole, rest = END.split(state[1] + piece)
        return whole, rest

    def apply(source: Observable[str]) -> Observable[str]:
        def whole(state: tuple[list[str], str]) -> Observable[str]:
            return ops_from(state[0])

        end = "\n."  # lets out what is left over
        return source.pipe(
            ops.concat_with_iterable,
        )

    return apply
