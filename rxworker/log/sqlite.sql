-- [tables]
CREATE TABLE runs(
  id INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, row BLOB NOT NULL, status TEXT NOT NULL,
  epoch INTEGER NOT NULL DEFAULT 0, last INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '',
  lease REAL NOT NULL DEFAULT 0, created REAL NOT NULL, updated REAL NOT NULL, size INTEGER NOT NULL DEFAULT 0,
  sent INTEGER NOT NULL DEFAULT 0, watched REAL NOT NULL DEFAULT 0, watcher TEXT NOT NULL DEFAULT '',
  revision INTEGER NOT NULL DEFAULT 0);

CREATE INDEX runs_by_status ON runs(status, id);

CREATE INDEX runs_by_revision ON runs(revision);

CREATE TABLE entries(
  run INTEGER NOT NULL, last INTEGER NOT NULL, first INTEGER NOT NULL, epoch INTEGER NOT NULL, kind TEXT NOT NULL,
  time REAL NOT NULL, changes INTEGER NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY(run, last)) WITHOUT ROWID;

CREATE TABLE commands(
  run INTEGER NOT NULL, number INTEGER NOT NULL, key TEXT, time REAL NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY(run, number), UNIQUE(run, key)) WITHOUT ROWID;

CREATE TABLE log(id TEXT NOT NULL, barriers INTEGER NOT NULL);

INSERT INTO log VALUES(lower(hex(randomblob(8))), 0);

-- [bases]
CREATE TABLE bases(run INTEGER PRIMARY KEY, base INTEGER NOT NULL);

CREATE INDEX bases_by_base ON bases(base);

CREATE TRIGGER keep_entries BEFORE DELETE ON entries
WHEN EXISTS(SELECT 1 FROM bases WHERE base=OLD.run)
BEGIN SELECT RAISE(IGNORE); END;

CREATE TRIGGER keep_runs BEFORE UPDATE OF status ON runs
WHEN NEW.status='deleted' AND EXISTS(SELECT 1 FROM bases WHERE base=NEW.id)
BEGIN SELECT RAISE(IGNORE); END;

-- [opened]
-- The processes that wait for a run, each with the kinds that it takes, one a line; none for all.
CREATE TABLE IF NOT EXISTS waiting(owner TEXT PRIMARY KEY, kinds TEXT NOT NULL, since REAL NOT NULL) WITHOUT ROWID;

-- By how much the clock of the leases is ahead of that of the running system, since it was started.
CREATE TABLE IF NOT EXISTS clock(boot TEXT PRIMARY KEY, ahead REAL NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS folds(key TEXT PRIMARY KEY, number INTEGER NOT NULL, data BLOB NOT NULL);
