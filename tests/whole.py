"""What the suite tests in part, since it takes long.

A step of `.ci/release` sets ``RXWORKER_EVERY_CUT=1`` and tests the whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

IS_WHOLE = os.environ.get("RXWORKER_EVERY_CUT") == "1"
SLOW_STORES = ["sqlite", "postgres", "nats"] if IS_WHOLE else ["sqlite"]
"""The stores for tests that start many processes; `tests/log/test_conformance.py` is for all stores."""


def one_of(cases: Sequence[Case]) -> Sequence[Case]:
    """The first of some cases, which is the one that fails first; the whole has all of them."""
    return cases if IS_WHOLE else cases[:1]
