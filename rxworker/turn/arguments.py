"""The arguments of a worker, checked where they are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.messages.settings import check_type
from rxworker.operators.factories import expect_operator
from rxworker.watchdog import running_loop

A = TypeVar("A")


def expect_several(name: str, values: Iterable[A], example: str) -> tuple[A, ...]:
    """The values as a tuple. A single value instead of a list is a common mistake.

    Raises:
        ConfigurationError: The value is not iterable.
    """
    try:
        return tuple(values)
    except TypeError as error:
        message = f"{name} is {values!r}; give several of them: {example}"
        raise ConfigurationError(message) from error


def expect_operators(operators: Iterable[A]) -> tuple[A, ...]:
    """Check that the operators can be applied.

    Raises:
        ConfigurationError: One is not an operator, or only makes one.
    """
    several = expect_several("operators", operators, "operators=[my_operator]")
    for operator in several:
        expect_operator(operator)
    return several


def expect_folder(workspace: str | Path) -> Path:
    """Check that the workspace is a folder.

    Raises:
        ConfigurationError: It is not.
    """
    folder = Path(check_type("workspace", workspace, (str, Path), "workspace='notes'"))
    if not folder.is_dir():
        raise ConfigurationError(f"workspace={str(folder)!r} is not a folder: create it first")
    return folder


MAX_LABELS, LONGEST_LABEL = 32, 1000
"""The maximum number of labels of a run, and of characters of a name or a text."""


def expect_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    """A copy of the labels.

    Raises:
        ConfigurationError: They are not texts by their names, there are more than `MAX_LABELS`, or one is longer than
            `LONGEST_LABEL`.
    """
    example = "labels={'tenant': 'acme'}"
    several = dict(check_type("labels", {} if labels is None else labels, Mapping, example))
    for name, value in several.items():
        check_type("a label's name", name, str, example)
        check_type(f"the label {name}", value, str, example)
        if max(len(name), len(value)) > LONGEST_LABEL:
            raise ConfigurationError(
                f"the label {name:.40} has {max(len(name), len(value))} characters, of {LONGEST_LABEL}: labels are in "
                "each list and in the first record of a run"
            )
    if len(several) > MAX_LABELS:
        raise ConfigurationError(f"there are {len(several)} labels, of {MAX_LABELS}")
    return several


def check_no_loop(call: str, instead: str) -> None:
    """Refuse to block a running event loop.

    Args:
        call: The call that blocks, as it is written.
        instead: What to write in its place.

    Raises:
        LocalProtocolError: An event loop runs in this thread.
    """
    if running_loop() is not None:
        raise LocalProtocolError(f"{call} cannot wait where an event loop runs: use {instead}")
