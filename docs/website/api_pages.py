"""The pages of the API reference.

One for each public package, with the names, the order and the groups of its ``__all__``.

The source is parsed and not imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MODULES = [
    "rxworker.errors",
    "rxworker.hooks.ready",
    "rxworker.adapters.asgi",
    "rxworker.adapters.tables",
    "rxworker.adapters.tables",
    "rxworker.log.format",
    "rxworker.operators.kernel",
    "rxworker.protocols.socket",
    "rxworker.ui.jupyter",
    "rxworker.views.changes",
]
"""Modules that programs import from, beside the packages."""
EXPORTS = re.compile(r"^__all__ = \[\n(.*?)^\]|^__all__ = \[(.+?)\]$", re.MULTILINE | re.DOTALL)
CODE = re.compile(
    r"^```.*?^```$|^#[^\n]*$|\[[^\]]*\]\([^)]*\)|``[^`]*``|(?<!`)`(?P<name>[A-Za-z_][\w.]*)`(?!`)",
    re.MULTILINE | re.DOTALL,
)
"""A name that stands as code; before it, what is left as it is: fences, headings, links, other code."""


class Group(NamedTuple):
    """Names of a package that belong together, with the title that a comment in ``__all__`` gives them."""

    title: str
    names: list[str]


def file_of(module: str) -> Path:
    """The file of a module, which may not exist."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def parsed(module: str) -> ast.Module:
    """The syntax of a module."""
    return ast.parse(file_of(module).read_text(encoding="utf-8"))


@cache
def imports(module: str) -> dict[str, str]:
    """The names that a module imports from the package, and where from."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rxworker")
        for alias in node.names
    }


@cache
def groups(module: str) -> list[Group]:
    """The public names of a module, as its ``__all__`` groups them.

    Of a module without one, its classes and functions.
    """
    if module in MODULES:
        own = [n for n in parsed(module).body if isinstance(n, ast.ClassDef | ast.FunctionDef)]
        return [Group("", [node.name for node in own if not node.name.startswith("_")])]
    listed = EXPORTS.search(file_of(module).read_text(encoding="utf-8"))
    if listed is None:
        return []
    found = [Group("", [])]
    for line in (listed[1] or listed[2]).splitlines():
        if line.strip().startswith("#"):
            title = line.strip("# ")
            found.append(Group(title[:1].upper() + title[1:], []))
        else:
            found[-1].names.extend(re.findall(r'"(\w+)"', line))
    return [group for group in found if group.names]


def names(module: str) -> list[str]:
    """The public names of a module."""
    return [name for group in groups(module) for name in group.names]


@cache
def modules() -> list[str]:
    """The modules that have a page: the packages that list names, and `MODULES`."""
    files = (ROOT / "rxworker").rglob("__init__.py")
    packages = [".".join(path.parent.relative_to(ROOT).parts) for path in files]
    return sorted([package for package in packages if names(package)] + MODULES)


def target(path: str) -> str:
    """The path of the definition behind a name that may be imported from elsewhere."""
    holder, _, name = path.rpartition(".")
    imported = imports(holder).get(name)
    return path if imported is None else target(imported)


@cache
def homes() -> dict[str, str]:
    """The module that describes each definition, by the path of the definition."""
    return {target(f"{module}.{name}"): module for module in modules() for name in names(module)}


@cache
def anchors() -> dict[str, str]:
    """Where each definition is described: its public path, or its own path if a module has the public one."""
    found: dict[str, str] = {}
    for definition, home in homes().items():
        name = definition.rpartition(".")[2]
        beside = {path.stem for path in file_of(home).parent.iterdir()}
        found[definition] = definition if name in beside else f"{home}.{name}"
    return found


def page(module: str) -> str:
    """The page of a module, in Markdown: mkdocstrings replaces its ``:::`` lines by what the docstrings describe."""
    options = "members: false\n      show_root_heading: false\n      show_root_toc_entry: false"
    parts = [f"# {module} {{#{module}}}", f"::: {module}\n    options:\n      {options}"]
    for group in groups(module):
        level = 2
        if group.title:
            parts.append(f"## {group.title}")
            level = 3
        for name in group.names:
            path = anchors()[target(f"{module}.{name}")]
            parts.append(f"::: {path}\n    options:\n      heading_level: {level}")
    return "\n\n".join(parts) + "\n"


def summary(definition: str) -> str:
    """The first line of a docstring; a constant and an alias have theirs below them."""
    module, _, name = definition.rpartition(".")
    body = list(_statements(parsed(module).body))
    for node, below in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                if docstring := ast.get_docstring(node):  # an overload has none
                    return docstring.partition("\n")[0]
            case ast.AnnAssign(target=ast.Name(id=found)) | ast.Assign(targets=[ast.Name(id=found)]):
                if found == name and isinstance(below, ast.Expr):
                    return str(ast.literal_eval(below.value)).partition("\n")[0]
            case _:
                pass
    return ""


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If):  # what only a type checker sees
            yield from _statements(node.body)


def pages() -> dict[str, str]:
    """The Markdown of each page, by its path in the site."""
    return {f"api/{module}.md": page(module) for module in modules()}


class Linker:
    """Links public names that stand as code in a text to where they are described: ``Worker`` in single backticks."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._of: dict[str, str | None] = {path: path for path in paths}
        for path in list(self._of):
            name = path.rpartition(".")[2]
            # What has two meanings is not linked, nor what is an ordinary word.
            plain = name == name.lower() and "_" not in name
            self._of[name] = None if plain or name in self._of else path

    def __call__(self, text: str, here: str = "") -> str:
        """The text with the first mention of each name linked, except of what it describes itself."""
        done = {here.rpartition(".")[2]}

        def linked(code: re.Match[str]) -> str:
            name: str | None = code["name"]
            path = self._of.get(name or "")
            if name is None or path is None or name in done:
                return code[0]
            done.add(name)
            return f"[`{name}`][{path}]"

        return CODE.sub(linked, text)
