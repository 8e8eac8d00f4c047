"""Ids of calls that a test can foresee."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from rxworker.providers import takes


@contextmanager
def numbered_ids() -> Generator[None]:
    """Within the context, calls that come without an id get ``rxw_1``, ``rxw_2`` and so on."""
    numbers = itertools.count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(takes, "uuid4", lambda: SimpleNamespace(hex=str(next(numbers))))
        yield
