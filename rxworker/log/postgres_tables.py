"""The tables and functions of a log in Postgres.

Theory of operation. Each change of a log is one call of a function, so that the server has all of it before it locks
anything: a client that stops in the middle of sending holds no lock. A function locks the rows of its runs in the order
of their ids, and then, in ``publish``, the log: from there to the commit, which waits for no disk, changes are made one
after the other. So revisions grow in the order of the commits, and a reader of one has missed no earlier one.

Nothing here waits for the disk. What must survive a loss of power is followed by `FLUSH`, a transaction of its own that
holds no lock, and that returns when the disk has everything that was committed before. So the barriers of many
processes share their writes to the disk.

All times are those of the clock of the server.
"""

from __future__ import annotations

from typing import LiteralString

from rxworker.log.store import sql_parts

FORMAT = 2
"""The version of the tables and the functions."""


_SCHEMA = {name: text.encode() for name, text in sql_parts("postgres").items()}

TABLES = _SCHEMA["tables"] + _SCHEMA["claim_run"]

UPGRADES = {
    # It claimed runs that had ended. Processes of that version, which are open while others are upgraded, go on
    # claiming with it.
    1: _SCHEMA["claim_run"] + _SCHEMA["claim_run_1"]
}
"""What brings the functions of a log from a version to the next one."""

BASES = _SCHEMA["bases"]
"""Which run refers to which. Logs of earlier versions have it from `upgrade` on.

The triggers are for processes of those versions, which would delete what others refer to.
"""

CALLS = _SCHEMA["calls"]
"""What wakes one process, and not all.

The processes that wait for a run, and a channel for each, on which it also receives that its runs have commands. Logs
of earlier versions get it when they are opened; the processes of those versions go on beside it, and call
``send_command`` as before."""

FLUSH: LiteralString = (
    "SELECT set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'rxworker', '')"
)
"""Return when the disk has what was committed before.

A transaction waits for the disk if it has written something: this one writes an empty message.
"""

POSITIONS: LiteralString = (
    "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, (pg_current_wal_flush_lsn() - '0/0')::bigint"
)
"""How much the server has written ahead, and how much of it is on the disk.

It writes by itself, some times a second.
"""

DURABLE: LiteralString = "SET LOCAL synchronous_commit = on"

SKIP: LiteralString = (
    "SELECT pg_advisory_xact_lock(hashtextextended('rxworker:' || current_schema(), 0)), "
    "setval('revision', (SELECT last_value + 100000 FROM revision))"
)
"""Leave out revisions.

A server that crashed has lost its last ones, which readers have seen; so each new connection that writes begins with
higher ones.
"""

CLAIM: LiteralString = "SELECT * FROM claim_run(%b, %b, %b, %b, %b, %b, %b::text[])"
LOCK: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended('rxworker:' || current_schema(), 0))"
HAS_BASES: LiteralString = "SELECT to_regclass('bases') IS NOT NULL"
REFER: LiteralString = "SELECT refer_run(%b, %b, %b)"
REFERRING: LiteralString = (
    "SELECT runs.run FROM unnest(%b::text[]) AS given(run) JOIN runs AS before ON before.run = given.run "
    "JOIN bases ON bases.base = before.id JOIN runs ON runs.id = bases.run"
)
REFOLD: LiteralString = "SELECT refold_run(%b, %b, %b, %b)"
PRUNE_REFERRED: LiteralString = "SELECT prune_runs(%b::text[], %b::bigint[], %b::bigint[], %b::bigint[])"
CLAIM_ANY: LiteralString = "SELECT * FROM claim_any(%b::text[], %b, %b, %b, %b::text[])"
AWAIT_CALL: LiteralString = (
    "INSERT INTO waiting VALUES(%b, %b::text[], date_part('epoch', clock_timestamp())) "
    "ON CONFLICT (owner) DO UPDATE SET kinds = excluded.kinds, since = excluded.since RETURNING owner"
)
DISMISS_CALL: LiteralString = (
    "WITH gone AS (DELETE FROM waiting WHERE owner = %b OR since < date_part('epoch', clock_timestamp()) - 86400 "
    "RETURNING owner) SELECT count(*) FROM gone"
)
# Those that came last are called first: a process that has ended is soon among the others.
CALL: LiteralString = (
    "WITH gone AS (DELETE FROM waiting WHERE owner IN (SELECT owner FROM waiting WHERE kinds = '{}' OR %(kind)b = '' OR"
    " %(kind)b = ANY(kinds) ORDER BY since DESC LIMIT %(most)b FOR UPDATE SKIP LOCKED) RETURNING owner) SELECT "
    "count(pg_notify(channel_of(owner), 'call')) FROM gone"
)
APPEND: LiteralString = (
    "SELECT * FROM append_entries(%b::text[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bytea[], "
    "%b::text[], %b::bigint[], %b::bigint[], %b::bigint[], %b::text[], %b::float8[], %b::boolean[], %b::bigint[], "
    "%b::bytea[])"
)
RELEASE: LiteralString = "SELECT release_run(%b, %b)"
POSTPONE: LiteralString = (
    "WITH given AS MATERIALIZED (UPDATE runs SET owner = %b, lease = date_part('epoch', clock_timestamp()) + %b "
    "WHERE run = %b AND epoch = %b RETURNING id, run) SELECT publish(array_agg(id), array_agg(run)) FROM given"
)
RENEW: LiteralString = "SELECT renew_claims(%b, %b, %b)"
MARK: LiteralString = "SELECT mark_watched(%b, %b, %b)"
SEND: LiteralString = "SELECT * FROM send_command(%b, %b, %b, %b)"
# One statement, so that the server has all of it before it locks anything. It passes over what others have locked, and
# publishes when everything else is done.
PRUNE: LiteralString = (
    "WITH old AS MATERIALIZED (SELECT runs.id, runs.run FROM runs JOIN unnest(%b::text[], %b::bigint[], %b::bigint[], "
    "%b::bigint[]) AS given(run, epoch, last, sent) ON runs.run = given.run WHERE runs.epoch = given.epoch AND "
    "runs.last = given.last AND runs.sent = given.sent AND status <> 'deleted' AND (owner = '' OR lease <= "
    "date_part('epoch', clock_timestamp())) ORDER BY runs.run FOR UPDATE OF runs SKIP LOCKED), entry AS (DELETE FROM "
    "entries USING old WHERE entries.run = old.id RETURNING 1), command AS (DELETE FROM commands USING old WHERE "
    "commands.run = old.id RETURNING 1), buried AS (UPDATE runs SET status = 'deleted', data = '', size = 0, epoch = "
    "epoch + 1, owner = '', lease = 0 FROM old WHERE runs.id = old.id RETURNING runs.id, runs.run), gone AS "
    "MATERIALIZED (SELECT coalesce(array_agg(id), '{}') AS keys, coalesce(array_agg(run), '{}') AS names, (SELECT "
    "count(*) FROM entry) + (SELECT count(*) FROM command) AS count FROM buried) SELECT names, publish(keys, names) "
    "FROM gone WHERE count >= 0"
)

_STORED: LiteralString = (
    "date_part('epoch', clock_timestamp()), runs.run, data, status, epoch, last, owner, lease, created, updated, size, "
    "revision, sent"
)
_RUNS: LiteralString = "runs JOIN revisions ON revisions.run = runs.id"

INFOS: LiteralString = (
    f"SELECT query.n, {_STORED} FROM unnest(%b::text[]) WITH ORDINALITY AS query(run, n) JOIN ({_RUNS}) ON runs.run = "
    "query.run"
)
# Each status has a part of an index, so that nothing reads the tombstones, of which there may be many. A range of this
# index has the runs of one status: for an equal status the server takes the index of the ids where it has no
# statistics, and reads all runs.
LIST: LiteralString = (
    f"SELECT {_STORED} FROM unnest(%(statuses)b::text[]) AS wanted CROSS JOIN LATERAL (SELECT * FROM runs WHERE status "
    ">= wanted AND (last = 0) = %(is_empty)b AND (status, id) < (wanted, CASE %(before)b WHEN '' THEN "
    "9223372036854775807 ELSE (SELECT id FROM runs WHERE run = %(before)b) END) ORDER BY status DESC, id DESC LIMIT "
    "%(limit)b) AS runs JOIN revisions ON revisions.run = runs.id ORDER BY runs.id DESC LIMIT %(limit)b"
)
CHANGED: LiteralString = f"SELECT {_STORED} FROM {_RUNS} WHERE revision > %b ORDER BY revision LIMIT %b"
SEARCH_TABLES = _SCHEMA["search_tables"]
"""The texts of runs, and what deletes them with a run. Made by the first search."""
FOLD_TABLE = _SCHEMA["fold_table"]
"""Made by the first fold that is kept."""
LOAD_FOLD: LiteralString = "SELECT number, data FROM folds WHERE key = %(key)b"
KEPT_OF: LiteralString = (
    "SELECT key FROM folds JOIN unnest(%(keys)b::text[]) AS given(key) USING (key) WHERE data <> ''"
)
FIRST_FOLD: LiteralString = (
    "INSERT INTO folds VALUES(%(key)b, 1, %(data)b) ON CONFLICT (key) DO NOTHING RETURNING number"
)
SAVE_FOLD: LiteralString = (
    "UPDATE folds SET number = number + 1, data = %(data)b WHERE key = %(key)b AND number = %(expected)b RETURNING "
    "number"
)
UNSEARCHED: LiteralString = (
    f"SELECT id, revisions.revision, data FROM {_RUNS} LEFT JOIN searched ON searched.run = id "
    "WHERE last > 0 AND status <> 'deleted' AND searched.revision IS DISTINCT FROM revisions.revision ORDER BY id"
)
TEXTS: LiteralString = (
    "SELECT first, last, epoch, kind, time, body, changes, version FROM entries WHERE run = %b AND kind = ANY(%b) "
    "ORDER BY last"
)
# The lock waits for a deletion that is under way, and a later one finds the row.
INDEX: LiteralString = (
    "INSERT INTO searched SELECT id, %b, %b, %b, %b FROM runs WHERE id = %b AND status <> 'deleted' FOR SHARE ON "
    "CONFLICT (run) DO UPDATE SET revision = excluded.revision, text = excluded.text, lower = excluded.lower, tools = "
    "excluded.tools WHERE searched.revision < excluded.revision"
)
FIND: LiteralString = (
    f"SELECT runs.id, searched.text, {_STORED.replace('revision', 'revisions.revision')} FROM {_RUNS} JOIN searched ON "
    "searched.run = runs.id WHERE runs.id < %(before)b AND status <> 'deleted' AND (%(tool)b = '' OR strpos(tools, "
    "%(tool)b) > 0) AND NOT EXISTS (SELECT 1 FROM unnest(%(words)b::text[]) AS word WHERE strpos(searched.lower, "
    "word) = 0) ORDER BY runs.id DESC LIMIT %(limit)b"
)
ENTRIES: LiteralString = (
    "SELECT query.n, status, page.* FROM unnest(%b::text[], %b::bigint[]) WITH ORDINALITY AS query(run, after, n) JOIN "
    "runs ON runs.run = query.run LEFT JOIN LATERAL (SELECT first, entries.last, entries.epoch, kind, time, body, "
    "changes, version FROM entries WHERE entries.run = runs.id AND entries.last > query.after ORDER BY entries.last "
    "LIMIT %b) AS page ON true ORDER BY query.n, page.last"
)
COMMANDS: LiteralString = (
    "SELECT query.n, number, time, body FROM unnest(%b::text[], %b::bigint[]) WITH ORDINALITY AS query(run, after, n) "
    "JOIN runs ON runs.run = query.run JOIN commands ON commands.run = runs.id AND number > query.after ORDER BY "
    "query.n, number"
)
