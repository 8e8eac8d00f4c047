"""The prose stays plain: retired words do not return to the pages and docstrings that are free of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

RETIRED = {
    r"hears?|heard": "receive",
    r"mends?|mended|mending": "repair, correct, fix",
    r"somebody|nobody|whoever|anybody": "name who it is: the user, the caller, a watcher, no observer",
    r"(?:what|all that) (?:it|they|he) (?:has|have) come to": "result, state, value",
    r"what (?:[a-z ]{1,30} )?(?:comes?|came) (?:to|of)": "result, value",
    r"what (?:of|became of)": "the parts of, the result",
    r"(?:gives?|stands?) (?:none|among)": "is empty, is one of",
    r"of course|hurry|hurries": "leave it out; name the limit",
    r"what (?:has|have) (?:not )?come": "the pieces so far, the rest, the state",
    r"lets? go of|letting go of": "release, dispose, close",
    r"by the way": "beside, also",
    r"(?:take|takes|taken|took|taking) back": "retract",
    r"tells?|told|telling": "report, notify, receive, distinguish",
    r"says?|said|saying": "state, contain, report, write, send",
    r"everybody|everyone|someone|no one|anyone": "name who it is: the user, every client, no observer",
    r"of its own make|of our own make": "own",
    r"knife|by chance|to be had|without help|whom|wish(?:es)?|heed(?:s|ed)?": (
        "the cause, with jitter, was found, automatically, who, hint, obey"
    ),
    r"complain(?:s|ed)?": "report, warn",
    r"(?:leaves?|left|leaving)(?: \w+){0,3} behind": "abandon",
    r"were they apart|those? of (?:then|today)": "shown separately, the recorded, the current",
    # A program may ask a person, or ask for approval.
    r"(?:asks?|asked|asking)(?! (?:(?:a|the|its) (?:people|person|user)|for (?:an )?approval)\b)": (
        "request, query, call, run"
    ),
    # "There is no log", "is no longer" and "is no more than" are sound.
    r"(?<!there )(?:is|are|was|were|be|been|becomes?) no(?! (?:longer|more|such|fewer|other|later|earlier)\b)": (
        "is not a, does not"
    ),
    r"(?<!there )(?:is|are|was|were) none(?! of\b)": "is not a, is not valid",
    r"for people": "shown to users; not interpreted",
    r"(?<!far )behind (?:it|them|these|such|which|each|every)": "after, if it is meant in time or in a text",
    r"(?<!with )the most (?:that|of (?:them|it)|tokens|bytes|characters|records|items|runs|calls|turns)": (
        "the maximum number of"
    ),
}
"""Words that the project does not use in prose, and what it uses instead."""

FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"``[^`]*``|`[^`]*`")
TEST_NAME = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
COMMENT_OR_STRING = re.compile(
    r"""#[^\n]*|\"""(?:[^\\]|\\.)*?\"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.DOTALL
)  # `tokenize` takes five times as long
EXAMPLE = re.compile(r"^\s*(?:>>>|\.\.\.).*$", re.MULTILINE)


def blank(found: re.Match[str]) -> str:
    """The same number of lines without text, so that line numbers stay."""
    return "\n" * found[0].count("\n")


@cache
def pattern_of(words: str) -> re.Pattern[str]:
    """Finds words, in upper or lower case."""
    return re.compile(rf"\b(?:{words})\b", re.IGNORECASE)


def retired_words(text: str, first_line: int = 1) -> Iterator[str]:
    """Each retired word of a text, with its line and the words to use."""
    prose = CODE.sub(blank, EXAMPLE.sub(blank, FENCE.sub(blank, text)))
    any_of_them = pattern_of("|".join(RETIRED))
    for number, line in enumerate(prose.splitlines(), first_line):
        if any_of_them.search(line) is None:
            continue
        for words, use in RETIRED.items():
            for found in pattern_of(words).finditer(line):
                yield f"line {number}: {found[0]!r}; write: {use}"


def comments_and_texts(source: str) -> Iterator[tuple[int, str]]:
    """The comments and docstrings of a module, and its strings that are sentences, such as the messages of errors."""
    for token in COMMENT_OR_STRING.finditer(source):
        if token[0].startswith(("#", '"""')) or " " in token[0]:
            yield source.count("\n", 0, token.start()) + 1, token[0]


def test_no_page_has_retired_words() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = {page: [*retired_words(page.read_text(encoding="utf-8"))] for page in pages}
    assert {str(page.relative_to(ROOT)): words for page, words in found.items() if words} == {}


def test_no_docstring_comment_or_message_has_retired_words() -> None:
    found: dict[str, list[str]] = {}
    modules = (each for part in ("rxworker", "examples") for each in (ROOT / part).rglob("*.py"))
    for module in modules:
        texts = comments_and_texts(module.read_text(encoding="utf-8"))
        if words := [each for line, text in texts for each in retired_words(text, line)]:
            found[str(module.relative_to(ROOT))] = words
    assert found == {}


def test_no_name_of_a_test_has_retired_words() -> None:
    found: dict[str, list[str]] = {}
    for module in (ROOT / "tests").rglob("test_*.py"):
        names = TEST_NAME.findall(module.read_text(encoding="utf-8"))
        if words := [each for name in names for each in retired_words(name.replace("_", " "))]:
            found[str(module.relative_to(ROOT))] = words
    assert found == {}


def test_a_sound_use_of_such_words_is_not_refused() -> None:
    sound = "There is no log. It is no longer far behind each other one; the user with the most runs."
    stiff = "It is no log, for people behind it, and holds the most that fits; the address is none."
    assert [*retired_words(sound)] == []
    assert len([*retired_words(stiff)]) == 5


def test_a_retired_word_is_found_outside_code_alone() -> None:
    text = "Whoever `mend`s it\n\n```python\nmend()\n```\nwas told.\n"
    assert [each.partition(";")[0] for each in retired_words(text)] == ["line 1: 'Whoever'", "line 6: 'told'"]
