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
from typing import Any

import msgspec
from msgspec import Struct

from rxworker.events.custom import Annotation, event_name
from rxworker.log.store import StoredRow
from rxworker.log.values import RunInfo
from rxworker.messages import Json

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
    "custom",
)
"""The kinds of entries that have texts."""
ANNOTATION = event_name(Annotation)
DELTAS = frozenset({"text_delta", "thinking_delta"})

TABLES = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5(text, tokenize='trigram')",
    "CREATE TABLE IF NOT EXISTS searched(id INTEGER PRIMARY KEY, last INTEGER NOT NULL, tools TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS search_state(id INTEGER PRIMARY KEY CHECK(id=1), revision INTEGER NOT NULL)",
    "INSERT OR IGNORE INTO search_state VALUES(1, 0)",
)


UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, LookupError, TypeError, AttributeError)
"""What reading a damaged entry raises."""


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


def texts_of(bodies: Iterable[tuple[str, bytes]]) -> Texts:
    """The texts of a run, of the kinds and bodies of its entries, in order.

    What runs write at the same time, or a run in several blocks, are texts of their own.
    """
    pieces: list[list[str]] = []
    blocks: dict[tuple[object, ...], list[str]] = {}
    tools: dict[str, None] = {}
    size = 0
    for kind, body in bodies:
        if kind not in KINDS:
            continue
        try:
            record = _record(body)
            event = record["event"]
            is_delta = kind in DELTAS
            texts = [event["text"]] if is_delta else _texts(kind, event, tools)
            texts = [text for text in texts if isinstance(text, str)]
            names = (event.get(name) for name in ("index", "choice"))
            block = (*record.get("path", ()), record["turn"], record["attempt"], kind, *names)
        except UNREADABLE:
            continue  # a damaged entry must not end the search of all runs
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


def _record(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:  # half of a surrogate pair
        return json.loads(body)


def _texts(kind: str, event: dict[str, Any], tools: dict[str, None]) -> list[str]:
    if kind in ("run_start", "run_resume"):
        messages: list[Any] = event.get("conversation", {}).get("messages", [])
        # The earlier messages belong to the earlier runs of the conversation.
        known = [at for at, one in enumerate(messages) if one["role"] == "assistant"]
        return _said(messages[known[-1] + 1 :] if known else messages)
    if kind == "message_add":
        return _said(event.get("messages", []))
    if kind == "custom":  # of those of the application, what people and programs think of the run
        data: dict[str, Any] = event.get("data", {}) if event["name"] == ANNOTATION else {}
        found = [data[name] for name in ("name", "value", "comment", "by") if name in data]
        return [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in found]
    if kind == "tool_start":
        tools[event["call"]["name"]] = None
        return [event["call"]["name"], _plain(event["call"].get("input"))]
    result: dict[str, Any] = event.get("result") or {}
    return [_plain(result.get("content"))]


def _said(messages: list[Any]) -> list[str]:
    users = [message for message in messages if message["role"] == "user"]
    return [part["text"] for one in users for part in one.get("content", []) if part["type"] == "text"]


def _plain(value: Json) -> str:
    """A value of JSON as text: texts as they are, of the content of a result only the texts."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    return json.dumps(value, ensure_ascii=False)


def indexed_texts(row: bytes, bodies: Iterable[tuple[str, bytes]]) -> Texts:
    """The title and the texts of a run as an index has them, of the encoded row and its entries.

    A database takes no half of a surrogate pair, and some no null character.
    """
    try:
        title = str(msgspec.json.decode(row).get("title", ""))
    except UNREADABLE:
        title = ""
    texts = texts_of(bodies)
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


def make_index(db: sqlite3.Connection) -> None:
    """Make the tables of the index, if there are none."""
    for statement in TABLES:
        db.execute(statement)


Changed = tuple[int, list[tuple[int, int, Texts | None]]]
"""A revision, and by it the keys, last numbers and texts of runs that have changed; no texts of deleted ones."""


def changed_texts(db: sqlite3.Connection) -> Changed | None:
    """Some of the runs that have changed since they were indexed; ``None`` if there are no more."""
    (since,) = db.execute("SELECT revision FROM search_state").fetchone()
    changed = db.execute(
        "SELECT runs.id, status, runs.last, ifnull(searched.last, 0), row, revision FROM runs LEFT JOIN "
        "searched ON searched.id=runs.id WHERE revision>? ORDER BY revision LIMIT ?",
        (since, BATCH),
    ).fetchall()
    rows = [
        (key, last, _texts_in(db, key, row) if last and status != "deleted" else None)
        for key, status, last, known, row, _ in changed
        if last != known or status == "deleted"
    ]
    return (changed[-1][-1], rows) if changed else None


def _texts_in(db: sqlite3.Connection, key: int, row: bytes) -> Texts:
    marks = ",".join("?" * len(KINDS))
    query = f"SELECT kind, body FROM entries WHERE run=? AND kind IN ({marks}) ORDER BY last"
    return indexed_texts(row, db.execute(query, (key, *KINDS)))


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
