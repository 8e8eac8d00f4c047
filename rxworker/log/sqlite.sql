-- The tables and the statements of a log in an SQLite file.

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
-- Which run refers to which. Files of earlier versions have it from `upgrade` on. The triggers are for processes of
-- those versions, which would delete what others refer to.
CREATE TABLE bases(run INTEGER PRIMARY KEY, base INTEGER NOT NULL);

CREATE INDEX bases_by_base ON bases(base);

CREATE TRIGGER keep_entries BEFORE DELETE ON entries
WHEN EXISTS(SELECT 1 FROM bases WHERE base=OLD.run)
BEGIN SELECT RAISE(IGNORE); END;

CREATE TRIGGER keep_runs BEFORE UPDATE OF status ON runs
WHEN NEW.status='deleted' AND EXISTS(SELECT 1 FROM bases WHERE base=NEW.id)
BEGIN SELECT RAISE(IGNORE); END;

-- [opened]
-- What files of earlier versions get when they are opened.
-- The processes that wait for a run, each with the kinds that it takes, one a line; none for all.
CREATE TABLE IF NOT EXISTS waiting(owner TEXT PRIMARY KEY, kinds TEXT NOT NULL, since REAL NOT NULL) WITHOUT ROWID;

-- By how much the clock of the leases is ahead of that of the running system, since it was started.
CREATE TABLE IF NOT EXISTS clock(boot TEXT PRIMARY KEY, ahead REAL NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS folds(key TEXT PRIMARY KEY, number INTEGER NOT NULL, data BLOB NOT NULL);

-- [search]
CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5(text, tokenize='trigram');

CREATE TABLE IF NOT EXISTS searched(id INTEGER PRIMARY KEY, last INTEGER NOT NULL, tools TEXT NOT NULL);

CREATE TABLE IF NOT EXISTS search_state(id INTEGER PRIMARY KEY CHECK(id=1), revision INTEGER NOT NULL);

INSERT OR IGNORE INTO search_state VALUES(1, 0);

-- [entry]
-- The columns of an entry, as the fields of `Entry`.
first, last, epoch, kind, time, body, changes, version

-- [stored]
-- The columns of a run, as the fields of `StoredRow`.
run, row, status, epoch, last, owner, lease, created, updated, size, revision, sent

-- [revise]
-- An assignment for each change of a run, in the order of the commits.
revision=(SELECT max(revision)+1 FROM runs)

-- [create]
INSERT OR IGNORE INTO runs(run, row, status, created, updated) VALUES(?,?,'running',?,?)

-- [is_used]
SELECT 1 FROM runs WHERE run=? AND (last>0 OR status='deleted')

-- [claim]
UPDATE runs SET epoch=epoch+1, owner=?, lease=?, {revise} WHERE id=? RETURNING epoch, last

-- [call]
DELETE FROM waiting WHERE owner IN (
  SELECT owner FROM waiting WHERE kinds='' OR ?='' OR instr(kinds, ?) ORDER BY since DESC LIMIT ?) RETURNING owner

-- [append]
UPDATE runs SET last=?, updated=?, size=size+?, row=ifnull(?,row), status=ifnull(?,status), {revise}
  WHERE run=? AND epoch=? AND last=? AND status<>'deleted' RETURNING id, watched, watcher

-- [add_entry]
INSERT INTO entries(run, {entry}) VALUES(?,?,?,?,?,?,?,?,?)

-- [give]
UPDATE runs SET owner=?, lease=?, {revise} WHERE run=? AND epoch=?

-- [renew]
-- A claim that was released meanwhile stays released.
UPDATE runs SET lease=CASE owner WHEN '' THEN lease ELSE ? END WHERE run=? AND epoch=?

-- [watch]
UPDATE runs SET watched=?, watcher=? WHERE run=? AND owner<>? AND status='running'

-- [read]
SELECT {entry} FROM entries WHERE run=? AND last>? ORDER BY last LIMIT ?

-- [info]
SELECT {stored} FROM runs WHERE run=?

-- [changed]
SELECT {stored} FROM runs WHERE revision>? ORDER BY revision LIMIT ?

-- [add_command]
INSERT INTO commands(run, number, key, time, body) VALUES(?,?,?,?,?)

-- [count_command]
UPDATE runs SET sent=sent+1, {revise} WHERE id=?

-- [commands]
SELECT number, time, body FROM commands WHERE run=(SELECT id FROM runs WHERE run=?) AND number>? ORDER BY number

-- [refer]
INSERT OR REPLACE INTO bases
  SELECT (SELECT id FROM runs WHERE run=?), id FROM runs WHERE run=? AND last>=? AND status<>'deleted'

-- [resize]
UPDATE runs SET size=size+(SELECT ?-length(body) FROM entries WHERE run=runs.id AND first=1) WHERE id=?

-- [refold]
UPDATE entries SET body=?, version=? WHERE run=? AND first=1

-- [free]
SELECT id FROM runs WHERE run=? AND epoch=? AND last=? AND sent=? AND status<>'deleted' AND (owner='' OR lease<=?)

-- [bury]
UPDATE runs SET status='deleted', row='', size=0, epoch=epoch+1, owner='', lease=0, {revise} WHERE id=?

-- [has_fold]
SELECT 1 FROM folds WHERE key=? AND data<>x''

-- [load_fold]
SELECT number, data FROM folds WHERE key=?

-- [first_fold]
INSERT OR IGNORE INTO folds VALUES(:key, 1, :data)

-- [save_fold]
UPDATE folds SET number=number+1, data=:data WHERE key=:key AND number=:expected

-- [changed_texts]
SELECT runs.id, status, runs.last, ifnull(searched.last, 0), row, revision FROM runs
  LEFT JOIN searched ON searched.id=runs.id WHERE revision>? ORDER BY revision LIMIT ?
