"""Appends to Postgres beside bare inserts of the same rows by the same library, in transactions of the same size."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import psycopg

from rxworker.log.format import Entry
from rxworker.log.postgres import PostgresLog
from rxworker.log.postgres_connection import Server

ROUNDS = 7
SIZE = 100
"""Entries of a transaction."""
TABLE = """CREATE TABLE bare(
  run bigint, last bigint, first bigint, epoch bigint, kind text, time float8, changes boolean, version bigint,
  body bytea, PRIMARY KEY(run, last))"""


async def ratio_of_appends(address: str, entries: Sequence[Entry]) -> tuple[float, float]:
    """Appends in bare inserts; and microseconds an entry."""
    ratios: list[float] = []
    each: list[float] = []
    async with PostgresLog(address) as log:
        connection = await Server(address).connect()
        await connection.execute(TABLE)
        for number in range(ROUNDS):
            claim = await log.claim(f"r{number}", create=True)
            began = time.perf_counter()
            for n in range(0, len(entries), SIZE):
                some = entries[n : n + SIZE]
                await log.append(claim, some, after=some[0].first - 1, durable=False)
            ours = time.perf_counter() - began
            began = time.perf_counter()
            for n in range(0, len(entries), SIZE):
                await _insert(connection, number, entries[n : n + SIZE])
            ratios.append(ours / (time.perf_counter() - began))
            each.append(ours / len(entries) * 1e6)
        await connection.close()
    return statistics.median(ratios), statistics.median(each)


async def _insert(connection: psycopg.AsyncConnection[tuple[object, ...]], run: int, entries: Sequence[Entry]) -> None:
    rows = [(run, e.last, e.first, e.epoch, e.kind, e.time, e.changes_state, e.version, e.body) for e in entries]
    async with connection.transaction(), connection.cursor() as cursor:
        await cursor.executemany("INSERT INTO bare VALUES(%b,%b,%b,%b,%b,%b,%b,%b,%b)", rows)
