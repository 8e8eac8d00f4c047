"""The page that an error about a wrong use names has its remedy: what its message shows as code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rxworker.cli.docs import docs_folder, find
from rxworker.errors import page_of

PACKAGE = Path(__file__).parents[2] / "rxworker"
RAISED = {"ConfigurationError", "LocalProtocolError"}
CHECKS = {"check_number", "check_type", "expect", "optional", "expect_several"}
CODE = re.compile(r"(?<!\w)@\w+|\b[A-Za-z]\w*(?=\()|\b[a-z]\w+(?==)|\b[A-Z][a-z]+[A-Z]\w+|\b[a-z]+_\w+")


def texts(node: ast.AST, local: dict[str, str]) -> str:
    """The literal parts of an expression that makes a message."""
    if isinstance(node, ast.Name):
        return local.get(node.id, "")
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        return "…"
    return "".join(texts(child, local) for child in ast.iter_child_nodes(node))


def mistakes() -> Iterator[tuple[str, str, str]]:
    """Where each error is raised or a value is checked, the page that it names, and its message."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if "templates" in path.parts:
            continue
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        if not any(f"{name}(" in text for name in (*RAISED, *CHECKS)):
            continue  # to parse all takes twice as long
        tree = ast.parse(text)
        local = {
            name.id: texts(node.value, {})
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for name in node.targets
            if isinstance(name, ast.Name)
        }
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
                continue
            if node.func.id in RAISED:
                said = [word.value for word in node.keywords if word.arg == "page"]
                page = texts(said[0], {}) if said else page_of(module.removesuffix(".__init__"))
                yield f"{path}:{node.lineno}", page, texts(node.args[0], local)
            elif node.func.id in CHECKS:
                shown = [texts(argument, {}) for argument in node.args]
                yield f"{path}:{node.lineno}", page_of(module), " ".join(shown)


@cache
def words_of(page: str) -> frozenset[str]:
    return frozenset(re.findall(r"@?\w+", find(docs_folder(), page)))


def test_the_page_that_an_error_names_has_something_of_its_remedy() -> None:
    elsewhere: list[str] = []
    for place, page, message in mistakes():
        _, _, end = message.partition(": ")
        code = set(CODE.findall(end)) or set(CODE.findall(message))
        if page and code and not {word.lstrip("@") for word in code} & words_of(page):
            elsewhere.append(f"{place} names {page}: {message}")
    assert elsewhere == []
