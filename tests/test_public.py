"""The public surface: what the packages export exists, explains itself, and stands in the reference."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import rxworker

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("[hr]*/*.md"))  # how-to and reference
OPERATORS = (ROOT / "docs" / "reference" / "operators.md").read_text(encoding="utf-8")
# Functions that stand in a pipe, or draw one, among other rooms' names.
DRAWN = [
    ("timeline.timeline", "Timeline.__call__"),
    ("tools", "run_tools"),
    ("hooks", "from_operator"),
    ("worker", "repeat_turns"),
    ("testing", "ensure_balanced"),
]


def packages() -> list[ModuleType]:
    """The package, those in it that anybody may import from, and the errors."""
    found = [rxworker, importlib.import_module("rxworker.errors")]
    for info in pkgutil.walk_packages(rxworker.__path__, "rxworker."):
        if info.ispkg:
            found.append(importlib.import_module(info.name))
    return found


def names_of(package: ModuleType) -> list[str]:
    """What a package exports; of the errors, its classes."""
    listed: list[str] | None = getattr(package, "__all__", None)
    if listed is not None:
        return listed
    members = inspect.getmembers(package, inspect.isclass)
    return [name for name, value in members if value.__module__ == package.__name__]


def is_operator(value: object) -> bool:
    """Whether it is a function that makes an operator."""
    if not inspect.isfunction(value):
        return False
    return str(inspect.signature(value).return_annotation).startswith("Operator[")


def drawing(doc: str) -> list[str]:
    """The lines of the drawing in a docstring, from its stream to its result."""
    lines = [line.strip() for line in doc.splitlines()]
    boxes = [at for at, line in enumerate(lines) if re.match(r"\[ .+ \]$", line)]
    if not boxes:
        return []
    first = last = boxes[0]
    while first > 0 and lines[first - 1]:
        first -= 1
    while last + 1 < len(lines) and lines[last + 1]:
        last += 1
    return lines[first : last + 1]


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.__name__)
def test_a_package_lists_what_exists_and_each_name_once(package: ModuleType) -> None:
    names = names_of(package)
    assert [name for name in names if not hasattr(package, name)] == []
    assert len(set(names)) == len(names)
    assert package.__doc__


def test_public_names_are_fewer_than_520_and_each_is_exported_once() -> None:
    listed = Counter(name for package in packages() for name in getattr(package, "__all__", ()))
    assert listed.total() < 520
    assert [name for name, times in listed.items() if times > 1] == []


def test_a_class_name_means_one_thing_in_all_packages() -> None:
    classes: dict[str, set[type]] = {}
    for package in packages():
        for name in names_of(package):
            if inspect.isclass(value := getattr(package, name)):
                classes.setdefault(name, set()).add(value)
    assert {name for name, found in classes.items() if len(found) > 1} == set()


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.__name__)
def test_every_public_name_stands_in_the_reference(package: ModuleType) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    told = set(re.findall(r"\b\w+\b", " ".join(re.findall(r"`[^`\n]+`|^#+ .+$", text, re.M))))
    assert sorted(set(names_of(package)) - told) == []


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.__name__)
def test_every_public_class_and_function_has_a_docstring(package: ModuleType) -> None:
    silent = [
        name
        for name in names_of(package)
        if (inspect.isclass(value := getattr(package, name)) or inspect.isroutine(value))
        and not (inspect.getdoc(value) or "").strip()
    ]
    assert silent == []


def test_every_operator_has_a_drawing_and_the_reference_shows_the_same() -> None:
    module = importlib.import_module("rxworker.operators")
    makers = [name for name in module.__all__ if is_operator(getattr(module, name))]
    assert len(makers) >= 15
    for name in makers:
        lines = drawing(inspect.getdoc(getattr(module, name)) or "")
        assert any("--" in line or "|" in line for line in lines), f"{name} draws nothing"
        shown = [line.strip() for line in OPERATORS.splitlines()]
        assert [line for line in lines if line not in shown] == [], f"{name} is drawn otherwise"
        assert f"### {name}" in OPERATORS


@pytest.mark.parametrize(("room", "path"), DRAWN)
def test_what_stands_in_a_pipe_elsewhere_has_a_drawing_too(room: str, path: str) -> None:
    value: object = importlib.import_module(f"rxworker.{room}")
    for part in path.split("."):
        value = getattr(value, part)
    lines = drawing(inspect.getdoc(value) or "")
    assert any("--" in line or "|" in line for line in lines)


def test_the_testing_kit_exports_the_names_that_its_page_lists() -> None:
    page = (ROOT / "docs" / "how-to" / "test-your-worker.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- ((?:`\w+`(?:, )?)+):", page.partition("\n## All names\n")[2], re.MULTILINE)
    names = [name for each in listed for name in re.findall(r"\w+", each)]
    testing = importlib.import_module("rxworker.testing")
    assert [name for name in names if not hasattr(testing, name)] == ["a"]  # of a drawing
    assert len(names) > 20
