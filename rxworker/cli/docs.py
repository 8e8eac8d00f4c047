"""``rxworker docs``: the pages of the documentation in the terminal, and ``llms.txt``, which is made of them.

A wheel contains the pages; in a checkout they are those of the repository.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import dropwhile, pairwise, takewhile
from math import log
from pathlib import Path
from typing import NamedTuple

from rxworker.cli.process import CommandError, write_line

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
QUESTION = re.compile(r"^- (.+?): \[[^\]]*\]\(([^)]+)\)", re.MULTILINE)
FILLERS = re.compile(r"(?:an?|and|at|can|do|does|for|from|how|i|in|is|it|my|of|on|or|that|the|to|what|with)", re.I)
"""The words of a question that a search does not look for."""
SHOWN = 12
"""How many places a search lists."""
OF_CONTRIBUTORS = (
    *("changelog", "contributing"),
    *(f"explanation/{name}" for name in ("architecture", "decisions", "performance")),
)
"""Pages that a user of the library does not need: a search does not look into them."""


class Section(NamedTuple):
    """A part of a page.

    The page's name, the anchor of the heading ("" for the part before the first), the heading, and the Markdown with
    it.
    """

    page: str
    anchor: str
    title: str
    text: str

    @property
    def name(self) -> str:
        """What `docs` takes."""
        return f"{self.page}#{self.anchor}" if self.anchor else self.page

    @property
    def level(self) -> int:
        """How deep its heading is."""
        return len(self.text) - len(self.text.lstrip("#"))


def docs(words: Sequence[str] = (), *, whole: bool = False) -> int:
    """Print a page, a section, what contains some words, or the list of the pages.

    Its arguments are the options of the command; see ``rxworker docs --help``.

    Returns:
        The exit code.

    Raises:
        CommandError: No page contains the words.
    """
    folder = docs_folder()
    topic = " ".join(words)
    if whole:
        write_line(whole_text(folder).rstrip())
    elif not topic:
        write_line(index_text(folder).rstrip())
        write_line("\nrxworker docs PAGE prints one of them, and rxworker docs WORDS searches.")
    elif text := find(folder, topic):
        _show(text)
    else:
        found = search(folder, topic)
        if not found:
            raise CommandError(
                f"no page contains {topic!r}: rxworker docs lists the pages, and rxworker docs glossary the terms"
            )
        width = max(len(section.name) for section in found)
        for section in found:
            write_line(f"{section.name:{width}}  {section.title}")
    return 0


def docs_folder() -> Path:
    """Where the pages are.

    Raises:
        CommandError: They are not installed.
    """
    package = Path(__file__).parents[1]
    for folder in (package / "docs", package.parent / "docs"):
        if (folder / "index.md").exists():
            return folder
    raise CommandError("the pages are not installed: install the wheel of rxworker again")


def page_names(folder: Path) -> list[str]:
    """The names of the pages, such as ``how-to/tools``, in the order of the index.

    Then those that it does not link to.
    """
    index = (folder / "index.md").read_text(encoding="utf-8")
    listed = [n for n in re.findall(r"\]\(([^)#:]+)\.md[)#]", index) if not n.startswith("..")]
    others = sorted(
        path.relative_to(folder).with_suffix("").as_posix()
        for path in folder.rglob("*.md")
        if "changes" not in path.parts
    )
    names = [*dict.fromkeys(listed), *(n for n in others if n not in listed and n != "index")]
    return [name for name in names if (folder / f"{name}.md").exists()]


def user_pages(folder: Path) -> list[str]:
    """The names of the pages for users of the library: those that are searched, and that ``--all`` prints."""
    return [name for name in page_names(folder) if name not in OF_CONTRIBUTORS]


def sections(folder: Path, page: str) -> Iterator[Section]:
    """The sections of a page, by its headings of two and three signs."""
    text = (folder / f"{page}.md").read_text(encoding="utf-8")
    hidden = FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)
    starts = [0, *(m.start() for m in re.finditer(r"^##+ ", hidden, re.MULTILINE)), len(text)]
    for start, end in pairwise(starts):
        part = text[start:end]
        heading = re.search(r"^#+ (.+)$", part, re.MULTILINE)
        title = LINK.sub(r"\1", heading[1]) if heading else page
        anchor = re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") if start else ""
        yield Section(page, anchor, title.replace("`", ""), part)


def find(folder: Path, topic: str) -> str:
    """The Markdown of a page, or of a section with those below it, by its name.

    ``how-to/tools``, ``tools``, ``tools#which-types``; "" if there is none.
    """
    page, _, anchor = topic.removesuffix(".md").lower().partition("#")
    names = page_names(folder)
    named = [n for n in names if n.lower() == page] or [n for n in names if n.lower().rpartition("/")[2] == page]
    for name in named:
        if not anchor:
            return (folder / f"{name}.md").read_text(encoding="utf-8")
        parts = dropwhile(lambda section: section.anchor != anchor, sections(folder, name))
        if first := next(parts, None):
            below = takewhile(lambda section: section.level > first.level, parts)
            return "".join(section.text for section in (first, *below))
    return ""


def answers(folder: Path) -> Iterator[tuple[str, str]]:
    """The rows of the page of questions: the words that users type, and the name of the section with the answer."""
    for question, link in QUESTION.findall((folder / "questions.md").read_text(encoding="utf-8")):
        yield question, link.replace(".md", "")


def search(folder: Path, words: str) -> list[Section]:
    """The sections that answer questions with all words, and then those with the most, the best first.

    A word counts more if few sections have it, and if a heading, the first column of a table or the beginning of an
    item has it; so does a section whose question has some of the words.
    """
    typed = re.findall(r"[^\s?!,`]+", words)
    wanted = [word for word in typed if not FILLERS.fullmatch(word)] or typed
    if not wanted:
        return []
    patterns = [re.compile(rf"(?<![A-Za-z0-9]){_stem(word)}", re.IGNORECASE) for word in wanted]
    rows = [re.compile(rf"^(?:\| [^|]*|- [^:\n]*)`[^|:\n]*?\b{re.escape(w)}\b", re.MULTILINE) for w in wanted]
    phrase = re.compile(r"[\s_-]+".join(map(_stem, wanted)), re.IGNORECASE)
    places = [section for page in user_pages(folder) if page != "questions" for section in sections(folder, page)]
    counts = [[len(pattern.findall(place.text)) for pattern in patterns] for place in places]
    having = [sum(map(bool, column)) for column in zip(*counts, strict=True)]
    if 0 in having and (likely := _spelt(words, wanted, having, places)) != words:
        return search(folder, likely)
    weights = [log(1 + len(places) / number) if number else 0.0 for number in having]
    asked: dict[str, float] = {}
    for question, name in answers(folder):
        share = sum(w for w, p in zip(weights, patterns, strict=True) if p.search(question))
        if all(p.search(question) for p in patterns):
            share = 1_000.0 - len(asked)
        asked[name] = max(share, asked.get(name, 0.0))

    def score(place: Section, here: Sequence[int]) -> float:
        heading = f"{place.page.rpartition('/')[2]} {place.title}"
        return (
            sum(
                weight * (1 + min(count, 25) / 50 + bool(p.search(heading)) + bool(r.search(place.text)))
                for weight, count, p, r in zip(weights, here, patterns, rows, strict=True)
                if count
            )
            + asked.get(place.name, 0.0)
            + max(weights) * (len(wanted) > 1) * bool(phrase.search(place.text))
        )

    least = sum(weights) / 2
    scored = [
        (-score(place, here), number)
        for number, (place, here) in enumerate(zip(places, counts, strict=True))
        if sum(w for w, count in zip(weights, here, strict=True) if count) > least or asked.get(place.name, 0.0) > least
    ]
    return [places[number] for _, number in sorted(scored)[:SHOWN]]


def _spelt(words: str, wanted: Sequence[str], having: Sequence[int], places: Sequence[Section]) -> str:
    """The words, with each that no section has replaced by the most similar one of the pages."""
    import difflib  # after a mistake only

    known = set(re.findall(r"[a-z]{4,}", " ".join(place.text for place in places).lower()))
    for word, number in zip(wanted, having, strict=True):
        for close in () if number else difflib.get_close_matches(word.lower(), known, 1, 0.8):
            words = words.replace(word, close)
    return words


def _stem(word: str) -> str:
    """The pattern of a word in any of its forms.

    ``raises`` finds raise and raised, and ``hand_over`` finds hand over.
    """
    stem = re.sub(r"(?<=\w{4})(?:ing|ed|es|s|e)$", "", word)
    return re.escape(stem).replace("_", "[ _-]")


def index_text(folder: Path, link: str = "{page}") -> str:
    """The list of the pages, by subject, each with what it is about: the format of ``llms.txt`` (https://llmstxt.org).

    Args:
        folder: The pages.
        link: What a page is linked as, with ``{page}`` for its name.
    """
    title, _, rest = (folder / "index.md").read_text(encoding="utf-8").partition("\n\n")
    summary, _, rest = rest.partition("\n\n")
    lines = [title, "", f"> {summary}"]
    seen: set[str] = set()
    for line in rest.splitlines():
        if line.startswith("#"):
            lines += ["", line]
            continue
        for name in re.findall(r"\]\(([^)#:]+)\.md[)#]", line):
            if name in seen or not (folder / f"{name}.md").exists():
                continue
            if lines[-1].startswith("#"):
                lines.append("")
            seen.add(name)
            about, *_ = sections(folder, name)
            sentence = _sentence(about.text)
            entry = f"- [{about.title}]({link.format(page=name)})"
            lines.append(f"{entry}: {sentence}" if sentence else entry)
    return "\n".join(lines) + "\n"


def whole_text(folder: Path) -> str:
    """All pages for users in one text (``llms-full.txt``)."""
    parts = [
        f"<!-- {page}.md -->\n\n{(folder / f'{page}.md').read_text(encoding='utf-8').strip()}"
        for page in user_pages(folder)
    ]
    return "\n\n".join(parts) + "\n"


def _sentence(text: str) -> str:
    """The first sentence below a heading, without its links."""
    body = re.sub(r"\A---\n.*?^---\n", "", text, flags=re.MULTILINE | re.DOTALL)
    body = re.sub(r"^#.*$", "", FENCE.sub("", body), flags=re.MULTILINE).strip()
    paragraph = " ".join(LINK.sub(r"\1", body.partition("\n\n")[0]).split())
    found = re.match(r".+?[.:](?= |$)", paragraph)
    return (found[0] if found else paragraph).rstrip(":.") + "." if paragraph else ""


def _show(text: str) -> None:
    """Print Markdown: drawn in a terminal, as it is into a file."""
    if not sys.stdout.isatty():
        write_line(text.rstrip())
        return
    try:
        from rich.console import Console
        from rich.markdown import Markdown
    except ImportError:
        write_line(text.rstrip())
        return
    Console().print(Markdown(text, hyperlinks=False))
