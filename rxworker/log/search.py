"""Search over the texts of stored runs, and the index that a log in an SQLite file has of them.

Theory of operation. Nothing is indexed when a run is written. A search first indexes the runs that have changed since
the last search, by their revision: the texts of a few runs are read, and then stored in a short transaction, so that
appends and other reads pass between them. Each run is one row of a full-text table in the same file. Its tokens are
sequences of three characters, so that a word is found within others and in scripts without spaces.

Source: https://www.sqlite.org/fts5.html, 4.3.4 (the trigram tokenizer).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from rxworker import events
from rxworker.errors import LogError
from rxworker.events import Annotation, Event
from rxworker.log.format import Entry, body_of
from rxworker.log.store import StoredRow, sql_parts
from rxworker.log.values import RunInfo
from rxworker.messages import Json, Message, Text, ToolResult
from rxworker.messages.content import ResultContent

MAX_TEXT = 200_000
"""The maximum number of characters of a run that are searched."""
BATCH = 20
"""How many runs are indexed in one transaction."""
TRIGRAM = 3
BEFORE, BEHIND = 30, 120
"""How many characters an excerpt has before what was found, and from there on."""

KINDS = (
    "run_start",
    "run_resume",
    "message_add",
    "text_delta",
    "thinking_delta",
    "tool_start",
    "tool_stop",
    "tool_output",
    "run_abort",
    "custom",
)
"""The kinds of entries that have texts."""
SQL = sql_parts("sqlite")


class Found(Struct, frozen=True):
    """A run that a search has found.

    Attributes:
        info: The run.
        excerpt: The text around the first word that was found; empty if its title contains it, or texts were not
            searched.
    """

    info: RunInfo
    excerpt: str = ""


class Texts(Struct, frozen=True):
    """What is searched of a run.

    Attributes:
        text: The messages to the run, its thinking and its answers, the arguments and results of its tools, and its
            annotations.
        tools: The names of the tools that it has started.
    """

    text: str
    tools: tuple[str, ...]


def words_of(text: str) -> list[str]:
    """The words of a search, in lower case.

    >>> words_of("  An Old pond ")
    ['an', 'old', 'pond']
    """
    return text.replace("\0", " ").lower().split()


def matches(words: Iterable[str], text: str) -> bool:
    """Whether a text contains each of these words, in upper or lower case, also within other words."""
    lower = text.lower()
    return all(word in lower for word in words)


def excerpt(words: Sequence[str], title: str, text: str) -> str:
    """The text around the first word that the title does not contain; empty if it contains them all.

    >>> excerpt(["pond"], "A haiku", "An old silent pond...")
    'An old silent pond...'
    """
    missing = [word for word in words if word not in title.lower()]
    while title and text.startswith(title):
        text = text[len(title) :].lstrip()
    lower = text.lower()
    at = next((found for word in missing if (found := lower.find(word)) >= 0), None)
    if at is None:
        return ""
    start, end = max(at - BEFORE, 0), at + BEHIND
    if start:  # begin with a word, if one begins there
        start = max(text.find(" ", start, at), start)
    shown = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"


def texts_of(entries: Iterable[Entry]) -> Texts:
    """The texts of a run, of its entries, in order.

    What runs write at the same time, or a run in several blocks, are texts of their own.
    """
    pieces: list[list[str]] = []
    blocks: dict[tuple[object, ...], list[str]] = {}
    tools: dict[str, None] = {}
    size = 0
    for entry in entries:
        try:
            body = body_of(entry, "")
            event = body.event
            texts = _texts(event, tools)
        except LogError:
            continue  # a damaged entry must not end the search of all runs
        is_delta = isinstance(event, events.TextDelta | events.ThinkingDelta)
        block = (body.path, body.turn, body.attempt, entry.kind, (event.index, event.choice) if is_delta else None)
        for text in texts:
            if is_delta and block in blocks:
                blocks[block].append(text)  # the deltas of one block are one text
            else:
                pieces.append([f"\n{text}"])
                blocks[block] = pieces[-1]
            size += len(text)
        if size > MAX_TEXT:
            break
    return Texts("".join(map("".join, pieces))[:MAX_TEXT], tuple(tools))


def _texts(event: Event, tools: dict[str, None]) -> list[str]:
    match event:
        case events.TextDelta(text=text) | events.ThinkingDelta(text=text):
            return [text]
        case events.RunStart(conversation=given) | events.RunResume(conversation=given):
            # The earlier messages belong to the earlier runs of the conversation.
            known = [at for at, one in enumerate(given.messages) if one.role == "assistant"]
            return _said(given.messages[known[-1] + 1 :] if known else given.messages)
        case events.MessageAdd(messages=messages):
            return _said(messages)
        case events.ToolStart(call=call):
            tools[call.name] = None
            return [call.name, _plain(call.input)]
        case events.ToolStop(result=ToolResult() as result) | events.ToolOutput(result=result):
            return [_plain(result.content)]
        case events.RunAbort(reason=reason):
            return [reason]
        case events.Custom() if (given := Annotation.of(event)) is not None:  # what is thought of the run
            found = (given.name, given.value, given.comment, given.by)
            return [_plain(each) for each in found if each != ""]
        case _:
            return []


def _said(messages: Sequence[Message]) -> list[str]:
    return [part.text for one in messages if one.role == "user" for part in one.content if isinstance(part, Text)]


def _plain(value: Json | ResultContent) -> str:
    """A value of JSON, or the content of a result, as text: texts as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return "\n".join(part.text for part in value if isinstance(part, Text))
    return json.dumps(value, ensure_ascii=False)


class _Title(Struct):
    title: str = ""


_decode_title = msgspec.json.Decoder(_Title).decode


def indexed_texts(row: bytes, entries: Iterable[Entry]) -> Texts:
    """The title and the texts of a run as an index has them, of the encoded row and its entries.

    A database takes no half of a surrogate pair, and some no null character.
    """
    try:
        title = _decode_title(row).title
    except (msgspec.MsgspecError, ValueError, RecursionError):
        title = ""
    texts = texts_of(entries)
    return Texts(storable(f"{title}{texts.text}").replace("\0", " "), texts.tools)


def storable(text: str) -> str:
    """A text that a database takes.

    >>> storable("half " + chr(0xD800))
    'half ?'
    """
    return text.encode("utf-8", "replace").decode()


def lines_of(tools: Iterable[str]) -> str:
    """The names of tools as they are searched, each between two newlines."""
    return storable("".join(f"\n{name}\n" for name in tools)).replace("\0", " ")


def has_full_text(db: sqlite3.Connection) -> bool:
    """Whether this SQLite has full-text search with trigrams (3.34 or later, with FTS5)."""
    options = {option for (option,) in db.execute("PRAGMA compile_options")}
    return "ENABLE_FTS5" in options and sqlite3.sqlite_version_info >= (3, 34)


def forget(db: sqlite3.Connection, keys: Sequence[int]) -> None:
    """Remove runs from the index, if there is one; in the transaction that deletes the runs."""
    if db.execute("SELECT 1 FROM sqlite_master WHERE name='searched'").fetchone():
        db.executemany("DELETE FROM search WHERE rowid=?", [(key,) for key in keys])
        db.executemany("DELETE FROM searched WHERE id=?", [(key,) for key in keys])


Changed = tuple[int, list[tuple[int, int, Texts | None]]]
"""A revision, and by it the keys, last numbers and texts of runs that have changed; no texts of deleted ones."""


def changed_texts(db: sqlite3.Connection) -> Changed | None:
    """Some of the runs that have changed since they were indexed; ``None`` if there are no more."""
    (since,) = db.execute("SELECT revision FROM search_state").fetchone()
    changed = db.execute(SQL["changed_texts"], (since, BATCH)).fetchall()
    rows = [
        (key, last, _texts_in(db, key, row) if last and status != "deleted" else None)
        for key, status, last, known, row, _ in changed
        if last != known or status == "deleted"
    ]
    return (changed[-1][-1], rows) if changed else None


def _texts_in(db: sqlite3.Connection, key: int, row: bytes) -> Texts:
    marks = ",".join("?" * len(KINDS))
    query = f"SELECT {SQL['entry']} FROM entries WHERE run=? AND kind IN ({marks}) ORDER BY last"
    return indexed_texts(row, (Entry(*each) for each in db.execute(query, (key, *KINDS))))


def index_texts(db: sqlite3.Connection, changed: Changed) -> None:
    """Index runs, in one transaction."""
    revision, rows = changed
    for key, last, texts in rows:
        forget(db, [key])
        if texts is not None:
            db.execute("INSERT INTO search(rowid, text) VALUES(?,?)", (key, texts.text))
            db.execute("INSERT INTO searched VALUES(?,?,?)", (key, last, lines_of(texts.tools)))
    db.execute("UPDATE search_state SET revision=max(revision, ?)", (revision,))


def find_texts(
    db: sqlite3.Connection, columns: str, words: Sequence[str], tool: str, before: int, limit: int
) -> list[tuple[int, str, StoredRow]]:
    """A page of the runs that match, the newest first: the key of each, its text, and these columns."""
    where, values = ["runs.id<? AND status<>'deleted'"], list[object]([before])
    terms = [word for word in words if len(word) >= TRIGRAM]
    if terms:
        where.append("search MATCH ?")
        values.append(" ".join('"' + word.replace('"', '""') + '"' for word in terms))
    for word in words:
        if len(word) < TRIGRAM:
            where.append("instr(lower(text), ?)")
            values.append(word)
    if tool:
        where.append("instr(tools, ?)")
        values.append(lines_of([tool]))
    query = (
        f"SELECT search.rowid, search.text, {columns} FROM search JOIN runs ON runs.id=search.rowid JOIN searched "
        f"ON searched.id=search.rowid WHERE {' AND '.join(where)} ORDER BY search.rowid DESC LIMIT ?"
    )
    return [(key, text, StoredRow(*row)) for key, text, *row in db.execute(query, (*values, limit))]
