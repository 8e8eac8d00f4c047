-- The tables, the functions and the queries of a log in Postgres.
--
-- Theory of operation. Each change of a log is one call of a function, so that the server has all of it before it locks
-- anything: a client that stops in the middle of sending holds no lock. A function locks the rows of its runs in the
-- order of their ids, and then, in publish, the log: from there to the commit, which waits for no disk, changes are made
-- one after the other. So revisions grow in the order of the commits, and a reader of one has missed no earlier one.
--
-- Nothing here waits for the disk. What must survive a loss of power is followed by flush, a transaction of its own that
-- holds no lock, and that returns when the disk has everything that was committed before. So the barriers of many
-- processes share their writes to the disk.
--
-- All times are those of the clock of the server.

-- [tables]
CREATE TABLE log(id text NOT NULL, format bigint NOT NULL);
CREATE TABLE runs(
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run text COLLATE "C" NOT NULL UNIQUE, data bytea NOT NULL,
  status text NOT NULL DEFAULT 'running', epoch bigint NOT NULL DEFAULT 0, last bigint NOT NULL DEFAULT 0,
  owner text NOT NULL DEFAULT '', lease float8 NOT NULL DEFAULT 0, token text NOT NULL DEFAULT '',
  created float8 NOT NULL, updated float8 NOT NULL, size bigint NOT NULL DEFAULT 0, sent bigint NOT NULL DEFAULT 0,
  watched float8 NOT NULL DEFAULT 0) WITH (fillfactor=50);
CREATE INDEX runs_by_status ON runs(status, id);
CREATE SEQUENCE revision;
CREATE TABLE revisions(run bigint PRIMARY KEY, revision bigint NOT NULL UNIQUE) WITH (fillfactor=50);
CREATE TABLE entries(
  run bigint NOT NULL, last bigint NOT NULL, first bigint NOT NULL, epoch bigint NOT NULL, kind text NOT NULL,
  time float8 NOT NULL, changes boolean NOT NULL, version bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY(run, last));
CREATE TABLE commands(
  run bigint NOT NULL, number bigint NOT NULL, key text NOT NULL, token text NOT NULL, time float8 NOT NULL,
  body bytea NOT NULL, PRIMARY KEY(run, number), UNIQUE(run, key));

CREATE FUNCTION publish(keys bigint[], names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('rxworker:' || current_schema(), 0));
  INSERT INTO revisions SELECT key, nextval('revision') FROM (SELECT DISTINCT unnest(keys) AS key) AS touched
    ON CONFLICT (run) DO UPDATE SET revision = excluded.revision;
  PERFORM pg_notify('rxworker:' || current_schema(), CASE WHEN octet_length(name) < 4000 THEN name ELSE '' END)
    FROM unnest(names) AS name;
END $$;

CREATE FUNCTION append_entries(names text[], epochs bigint[], afters bigint[], counts bigint[], sizes bigint[],
  datas bytea[], states text[], lasts bigint[], firsts bigint[], entry_epochs bigint[], kinds text[], times float8[],
  changed boolean[], versions bigint[], bodies bytea[])
RETURNS TABLE(is_watched boolean, found_epoch bigint, found_last bigint, found_status text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$  -- a plan for each append would copy all arrays into it
DECLARE one bigint; keys bigint[] := '{}'; stored text[] := '{}'; start bigint := 0;
  moment float8 := date_part('epoch', clock_timestamp());
BEGIN
  FOR i IN 1 .. cardinality(names) LOOP
    UPDATE runs SET last = CASE counts[i] WHEN 0 THEN last ELSE lasts[start + counts[i]] END, updated = moment,
      size = size + sizes[i], data = coalesce(datas[i], data), status = coalesce(states[i], status)
      WHERE run = names[i] AND epoch = epochs[i] AND last = afters[i] AND status <> 'deleted'
        RETURNING id, watched > moment INTO one, is_watched;
    IF FOUND THEN
      INSERT INTO entries
        SELECT one, lasts[n], firsts[n], entry_epochs[n], kinds[n], times[n], changed[n], versions[n], bodies[n]
        FROM generate_series(start + 1, start + counts[i]) AS n;
      keys := keys || one; stored := stored || names[i];
    ELSE
      SELECT NULL, epoch, last, status INTO is_watched, found_epoch, found_last, found_status FROM runs
        WHERE run = names[i];
    END IF;
    start := start + counts[i];
    RETURN NEXT;
  END LOOP;
  PERFORM publish(keys, stored);
END $$;

CREATE FUNCTION release_run(name text, given_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE one bigint;
BEGIN
  UPDATE runs SET owner = '', lease = 0 WHERE run = name AND epoch = given_epoch AND owner <> '' RETURNING id INTO one;
  IF FOUND THEN
    PERFORM publish(ARRAY[one], ARRAY[name]);
  END IF;
END $$;

CREATE FUNCTION renew_claims(names text[], epochs bigint[], seconds float8) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1 .. cardinality(names) LOOP  -- a claim that was released meanwhile stays released
    UPDATE runs SET lease = CASE owner WHEN '' THEN lease ELSE date_part('epoch', clock_timestamp()) + seconds END
      WHERE run = names[i] AND epoch = epochs[i];
    IF FOUND THEN
      RETURN NEXT names[i];
    END IF;
  END LOOP;
END $$;

CREATE FUNCTION mark_watched(names text[], watcher text, seconds float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE moment float8 := date_part('epoch', clock_timestamp());
BEGIN
  FOR i IN 1 .. cardinality(names) LOOP
    UPDATE runs SET watched = moment + seconds
      WHERE run = names[i] AND status = 'running' AND owner <> watcher AND watched < moment + seconds / 2;
  END LOOP;
END $$;

-- [claim_run]
CREATE FUNCTION claim_run(name text, is_new boolean, given_data bytea, claimant text, given_token text, seconds float8,
  statuses text[], OUT is_taken boolean, OUT found_epoch bigint, OUT found_last bigint, OUT found_status text,
  OUT found_owner text, OUT remaining float8)
LANGUAGE plpgsql AS $$
DECLARE one runs; moment float8;
BEGIN
  IF is_new THEN
    moment := date_part('epoch', clock_timestamp());
    INSERT INTO runs(run, data, created, updated) VALUES(name, given_data, moment, moment) ON CONFLICT (run) DO NOTHING;
  END IF;
  SELECT * INTO one FROM runs WHERE run = name FOR UPDATE;
  moment := date_part('epoch', clock_timestamp());
  is_taken := one.token = given_token;
  IF NOT is_taken AND one.status <> 'deleted' AND NOT (is_new AND one.last > 0)
    AND (is_new OR one.status = ANY(statuses)) AND NOT (one.owner <> '' AND one.lease > moment) THEN
    one.epoch := one.epoch + 1;
    UPDATE runs SET epoch = one.epoch, owner = claimant, lease = moment + seconds, token = given_token
      WHERE id = one.id;
    PERFORM publish(ARRAY[one.id], ARRAY[name]);
    is_taken := true;
  END IF;
  found_epoch := one.epoch; found_last := one.last; found_status := one.status; found_owner := one.owner;
  remaining := one.lease - moment;
END $$;

-- [claim_run_1]
CREATE OR REPLACE FUNCTION claim_run(name text, is_new boolean, given_data bytea, claimant text, given_token text,
  seconds float8, OUT is_taken boolean, OUT found_epoch bigint, OUT found_last bigint, OUT found_status text,
  OUT found_owner text, OUT remaining float8)
LANGUAGE sql AS $$
  SELECT * FROM claim_run(name, is_new, given_data, claimant, given_token, seconds, ARRAY['queued', 'running']);
$$;

-- [bases]
-- Which run refers to which. Logs of earlier versions have it from `upgrade` on. The triggers are for processes of those
-- versions, which would delete what others refer to.
CREATE TABLE bases(run bigint PRIMARY KEY, base bigint NOT NULL);
CREATE INDEX bases_by_base ON bases(base);

CREATE FUNCTION refer_run(name text, base_name text, seq bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE one bigint;
BEGIN
  SELECT id INTO one FROM runs WHERE run = base_name AND last >= seq AND status <> 'deleted' FOR SHARE;
  INSERT INTO bases SELECT id, one FROM runs WHERE run = name AND one IS NOT NULL
    ON CONFLICT (run) DO UPDATE SET base = excluded.base;
  RETURN one IS NOT NULL;
END $$;

CREATE FUNCTION refold_run(name text, given_body bytea, given_version bigint, base_name text) RETURNS void
  LANGUAGE plpgsql AS $$
DECLARE one runs;
BEGIN
  SELECT * INTO one FROM runs WHERE run = name AND status <> 'deleted' FOR UPDATE;
  IF given_body IS NULL THEN
    UPDATE runs SET epoch = epoch + 1 WHERE id = one.id;
  ELSE
    UPDATE runs SET size = size + octet_length(given_body)
      - (SELECT octet_length(body) FROM entries WHERE run = one.id AND last = 1) WHERE id = one.id;
    UPDATE entries SET body = given_body, version = given_version WHERE run = one.id AND last = 1;
  END IF;
  DELETE FROM bases WHERE run = one.id;
  INSERT INTO bases SELECT one.id, id FROM runs WHERE run = base_name AND one.id IS NOT NULL;
END $$;

CREATE OR REPLACE FUNCTION delete_run(name text, OUT is_gone boolean, OUT found_status text, OUT found_owner text,
  OUT remaining float8) LANGUAGE plpgsql AS $$
DECLARE one runs; moment float8;
BEGIN
  SELECT * INTO one FROM runs WHERE run = name FOR UPDATE;
  moment := date_part('epoch', clock_timestamp());
  is_gone := one.status <> 'deleted' AND NOT (one.owner <> '' AND one.lease > moment)
    AND NOT EXISTS (SELECT 1 FROM bases WHERE base = one.id);
  found_status := one.status; found_owner := one.owner; remaining := one.lease - moment;
  IF is_gone THEN
    DELETE FROM bases WHERE run = one.id;
    DELETE FROM entries WHERE run = one.id;
    DELETE FROM commands WHERE run = one.id;
    UPDATE runs SET status = 'deleted', data = '', size = 0, epoch = epoch + 1, owner = '', lease = 0 WHERE id = one.id;
    PERFORM publish(ARRAY[one.id], ARRAY[name]);
  END IF;
END $$;

CREATE FUNCTION prune_runs(given_names text[], epochs bigint[], lasts bigint[], sents bigint[], OUT names text[])
  LANGUAGE plpgsql AS $$
DECLARE gone bigint[];
BEGIN
  SELECT coalesce(array_agg(id), '{}') INTO gone FROM (SELECT runs.id FROM runs
    JOIN unnest(given_names, epochs, lasts, sents) AS given(run, epoch, last, sent)
    ON runs.run = given.run WHERE runs.epoch = given.epoch AND runs.last = given.last AND runs.sent = given.sent
    AND status <> 'deleted' AND (owner = '' OR lease <= date_part('epoch', clock_timestamp()))
    ORDER BY runs.run FOR UPDATE OF runs SKIP LOCKED) AS locked;
  WITH RECURSIVE kept(id) AS (SELECT base FROM bases WHERE base = ANY(gone) AND run <> ALL(gone)
      UNION SELECT bases.base FROM bases JOIN kept ON bases.run = kept.id)
    SELECT coalesce(array_agg(one), '{}') INTO gone FROM unnest(gone) AS one WHERE one NOT IN (SELECT id FROM kept);
  -- A join: with ANY each row of a table that is scanned is compared with each of them.
  DELETE FROM bases USING unnest(gone) AS one(id) WHERE run = one.id;
  DELETE FROM entries USING unnest(gone) AS one(id) WHERE run = one.id;
  DELETE FROM commands USING unnest(gone) AS one(id) WHERE run = one.id;
  WITH buried AS (UPDATE runs SET status = 'deleted', data = '', size = 0, epoch = epoch + 1, owner = '', lease = 0
    FROM unnest(gone) AS one(id) WHERE runs.id = one.id RETURNING run)
    SELECT coalesce(array_agg(run), '{}') INTO names FROM buried;
  PERFORM publish(gone, names);
END $$;

CREATE FUNCTION keep_entries() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RETURN CASE WHEN EXISTS (SELECT 1 FROM bases WHERE base = OLD.run) THEN NULL ELSE OLD END;
END $$;
CREATE TRIGGER keep_entries BEFORE DELETE ON entries FOR EACH ROW EXECUTE FUNCTION keep_entries();
CREATE FUNCTION keep_runs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RETURN CASE WHEN EXISTS (SELECT 1 FROM bases WHERE base = NEW.id) THEN NULL ELSE NEW END;
END $$;
CREATE TRIGGER keep_runs BEFORE UPDATE OF status ON runs FOR EACH ROW WHEN (NEW.status = 'deleted')
  EXECUTE FUNCTION keep_runs();

-- [calls]
-- What wakes one process, and not all: the processes that wait for a run, and a channel for each, on which it also
-- receives that its runs have commands. Logs of earlier versions get it when they are opened; the processes of those
-- versions go on beside it, and call send_command as before.
CREATE UNLOGGED TABLE waiting(owner text PRIMARY KEY, kinds text[] NOT NULL, since float8 NOT NULL);

CREATE FUNCTION channel_of(owner text) RETURNS text LANGUAGE sql AS $$
  SELECT 'rxw:' || md5(current_schema() || ':' || owner) $$;

CREATE FUNCTION claim_any(names text[], claimant text, given_token text, seconds float8, statuses text[],
  OUT found_run text, OUT found_epoch bigint, OUT found_last bigint) LANGUAGE plpgsql AS $$
DECLARE taken boolean;
BEGIN
  FOREACH found_run IN ARRAY names LOOP
    PERFORM 1 FROM runs WHERE run = found_run AND (token = given_token OR
      (status = ANY(statuses) AND NOT (owner <> '' AND lease > date_part('epoch', clock_timestamp()))))
      FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      SELECT is_taken, one.found_epoch, one.found_last INTO taken, found_epoch, found_last
        FROM claim_run(found_run, false, NULL, claimant, given_token, seconds, statuses) AS one;
      IF taken THEN
        RETURN;
      END IF;
    END IF;
  END LOOP;
  found_run := NULL;
END $$;

CREATE OR REPLACE FUNCTION send_command(name text, given_key text, given_token text, given_body bytea,
  OUT found_status text, OUT given_number bigint)
LANGUAGE plpgsql AS $$
DECLARE one runs;
BEGIN
  SELECT * INTO one FROM runs WHERE run = name FOR UPDATE;
  found_status := one.status;
  SELECT number INTO given_number FROM commands WHERE run = one.id AND key = given_key AND token = given_token;
  IF given_number IS NULL AND one.status IN ('queued', 'running', 'paused') THEN
    INSERT INTO commands
      VALUES(one.id, one.sent + 1, given_key, given_token, date_part('epoch', clock_timestamp()), given_body)
      ON CONFLICT (run, key) DO NOTHING RETURNING number INTO given_number;
    IF FOUND THEN
      UPDATE runs SET sent = given_number WHERE id = one.id;
      PERFORM publish(ARRAY[one.id], ARRAY[name]);
      PERFORM pg_notify(channel_of(one.owner), 'run ' || CASE WHEN octet_length(name) < 4000 THEN name ELSE '' END)
        WHERE one.owner <> '';
    END IF;
  END IF;
END $$;

-- [search_tables]
-- The texts of runs, and what deletes them with a run. Made by the first search.
DO $$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('rxworker search:' || current_schema(), 0));
  IF to_regclass('searched') IS NULL THEN
    CREATE TABLE searched(run bigint PRIMARY KEY, revision bigint NOT NULL, text text NOT NULL, lower text NOT NULL,
      tools text NOT NULL);
    CREATE FUNCTION forget_searched() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN
      DELETE FROM searched WHERE run = NEW.id;
      RETURN NULL;
    END $f$;
    CREATE TRIGGER forget_searched AFTER UPDATE OF status ON runs FOR EACH ROW WHEN (NEW.status = 'deleted')
      EXECUTE FUNCTION forget_searched();
  END IF;
END $$

-- [fold_table]
-- Made by the first fold that is kept.
DO $$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('rxworker folds:' || current_schema(), 0));
  IF to_regclass('folds') IS NULL THEN
    CREATE TABLE folds(key text COLLATE "C" PRIMARY KEY, number bigint NOT NULL, data bytea NOT NULL);
  END IF;
END $$

-- [flush]
-- Returns when the disk has what was committed before. A transaction waits for the disk if it has written something:
-- this one writes an empty message.
SELECT set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'rxworker', '')

-- [positions]
-- How much the server has written ahead, and how much of it is on the disk. It writes by itself, some times a second.
SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, (pg_current_wal_flush_lsn() - '0/0')::bigint

-- [durable]
SET LOCAL synchronous_commit = on

-- [skip]
-- Leaves out revisions. A server that crashed has lost its last ones, which readers have seen; so each new connection
-- that writes begins with higher ones.
SELECT pg_advisory_xact_lock(hashtextextended('rxworker:' || current_schema(), 0)), setval('revision', (SELECT
  last_value + 100000 FROM revision))

-- [claim]
SELECT * FROM claim_run(%b, %b, %b, %b, %b, %b, %b::text[])

-- [claim_any]
SELECT * FROM claim_any(%b::text[], %b, %b, %b, %b::text[])

-- [lock]
SELECT pg_advisory_xact_lock(hashtextextended('rxworker:' || current_schema(), 0))

-- [has_bases]
SELECT to_regclass('bases') IS NOT NULL

-- [refer]
SELECT refer_run(%b, %b, %b)

-- [referring]
SELECT runs.run FROM unnest(%b::text[]) AS given(run) JOIN runs AS before ON before.run = given.run JOIN bases ON
  bases.base = before.id JOIN runs ON runs.id = bases.run

-- [refold]
SELECT refold_run(%b, %b, %b, %b)

-- [prune]
-- One statement, so that the server has all of it before it locks anything. It passes over what others have locked, and
-- publishes when everything else is done.
WITH old AS MATERIALIZED (SELECT runs.id, runs.run FROM runs JOIN unnest(%b::text[], %b::bigint[], %b::bigint[],
  %b::bigint[]) AS given(run, epoch, last, sent) ON runs.run = given.run WHERE runs.epoch = given.epoch AND runs.last
  = given.last AND runs.sent = given.sent AND status <> 'deleted' AND (owner = '' OR lease <= date_part('epoch',
  clock_timestamp())) ORDER BY runs.run FOR UPDATE OF runs SKIP LOCKED), entry AS (DELETE FROM entries USING old WHERE
  entries.run = old.id RETURNING 1), command AS (DELETE FROM commands USING old WHERE commands.run = old.id RETURNING
  1), buried AS (UPDATE runs SET status = 'deleted', data = '', size = 0, epoch = epoch + 1, owner = '', lease = 0
  FROM old WHERE runs.id = old.id RETURNING runs.id, runs.run), gone AS MATERIALIZED (SELECT coalesce(array_agg(id),
  '{}') AS keys, coalesce(array_agg(run), '{}') AS names, (SELECT count(*) FROM entry) + (SELECT count(*) FROM
  command) AS count FROM buried) SELECT names, publish(keys, names) FROM gone WHERE count >= 0

-- [prune_referred]
SELECT prune_runs(%b::text[], %b::bigint[], %b::bigint[], %b::bigint[])

-- [await_call]
INSERT INTO waiting VALUES(%b, %b::text[], date_part('epoch', clock_timestamp())) ON CONFLICT (owner) DO UPDATE SET
  kinds = excluded.kinds, since = excluded.since RETURNING owner

-- [dismiss_call]
WITH gone AS (DELETE FROM waiting WHERE owner = %b OR since < date_part('epoch', clock_timestamp()) - 86400 RETURNING
  owner) SELECT count(*) FROM gone

-- [call]
-- Those that came last are called first: a process that has ended is soon among the others.
WITH gone AS (DELETE FROM waiting WHERE owner IN (SELECT owner FROM waiting WHERE kinds = '{}' OR %(kind)b = '' OR
  %(kind)b = ANY(kinds) ORDER BY since DESC LIMIT %(most)b FOR UPDATE SKIP LOCKED) RETURNING owner) SELECT
  count(pg_notify(channel_of(owner), 'call')) FROM gone

-- [append]
SELECT * FROM append_entries(%b::text[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bytea[],
  %b::text[], %b::bigint[], %b::bigint[], %b::bigint[], %b::text[], %b::float8[], %b::boolean[], %b::bigint[],
  %b::bytea[])

-- [release]
SELECT release_run(%b, %b)

-- [postpone]
WITH given AS MATERIALIZED (UPDATE runs SET owner = %b, lease = date_part('epoch', clock_timestamp()) + %b WHERE run =
  %b AND epoch = %b RETURNING id, run) SELECT publish(array_agg(id), array_agg(run)) FROM given

-- [renew]
SELECT renew_claims(%b, %b, %b)

-- [mark]
SELECT mark_watched(%b, %b, %b)

-- [send]
SELECT * FROM send_command(%b, %b, %b, %b)

-- [stored]
-- The columns of a run, for the queries that name them in braces.
date_part('epoch', clock_timestamp()), runs.run, data, status, epoch, last, owner, lease, created, updated, size,
  revisions.revision, sent

-- [infos]
SELECT query.n, {stored} FROM unnest(%b::text[]) WITH ORDINALITY AS query(run, n) JOIN (runs JOIN revisions ON
  revisions.run = runs.id) ON runs.run = query.run

-- [list]
-- Each status has a part of an index, so that nothing reads the tombstones, of which there may be many. A range of this
-- index has the runs of one status: for an equal status the server takes the index of the ids where it has no
-- statistics, and reads all runs.
SELECT {stored} FROM unnest(%(statuses)b::text[]) AS wanted CROSS JOIN LATERAL (SELECT * FROM runs WHERE status >=
  wanted AND (last = 0) = %(is_empty)b AND (status, id) < (wanted, CASE %(before)b WHEN '' THEN 9223372036854775807
  ELSE (SELECT id FROM runs WHERE run = %(before)b) END) ORDER BY status DESC, id DESC LIMIT %(limit)b) AS runs JOIN
  revisions ON revisions.run = runs.id ORDER BY runs.id DESC LIMIT %(limit)b

-- [changed]
SELECT {stored} FROM runs JOIN revisions ON revisions.run = runs.id WHERE revision > %b ORDER BY revision LIMIT %b

-- [load_fold]
SELECT number, data FROM folds WHERE key = %(key)b

-- [kept_of]
SELECT key FROM folds JOIN unnest(%(keys)b::text[]) AS given(key) USING (key) WHERE data <> ''

-- [first_fold]
INSERT INTO folds VALUES(%(key)b, 1, %(data)b) ON CONFLICT (key) DO NOTHING RETURNING number

-- [save_fold]
UPDATE folds SET number = number + 1, data = %(data)b WHERE key = %(key)b AND number = %(expected)b RETURNING number

-- [unsearched]
SELECT id, revisions.revision, data FROM runs JOIN revisions ON revisions.run = runs.id LEFT JOIN searched ON
  searched.run = id WHERE last > 0 AND status <> 'deleted' AND searched.revision IS DISTINCT FROM revisions.revision
  ORDER BY id

-- [texts]
SELECT first, last, epoch, kind, time, body, changes, version FROM entries WHERE run = %b AND kind = ANY(%b) ORDER BY
  last

-- [index]
-- The lock waits for a deletion that is under way, and a later one finds the row.
INSERT INTO searched SELECT id, %b, %b, %b, %b FROM runs WHERE id = %b AND status <> 'deleted' FOR SHARE ON CONFLICT
  (run) DO UPDATE SET revision = excluded.revision, text = excluded.text, lower = excluded.lower, tools =
  excluded.tools WHERE searched.revision < excluded.revision

-- [find]
SELECT runs.id, searched.text, {stored} FROM runs JOIN revisions ON revisions.run = runs.id JOIN searched ON
  searched.run = runs.id WHERE runs.id < %(before)b AND status <> 'deleted' AND (%(tool)b = '' OR strpos(tools,
  %(tool)b) > 0) AND NOT EXISTS (SELECT 1 FROM unnest(%(words)b::text[]) AS word WHERE strpos(searched.lower, word) =
  0) ORDER BY runs.id DESC LIMIT %(limit)b

-- [entries]
SELECT query.n, status, page.* FROM unnest(%b::text[], %b::bigint[]) WITH ORDINALITY AS query(run, after, n) JOIN runs
  ON runs.run = query.run LEFT JOIN LATERAL (SELECT first, entries.last, entries.epoch, kind, time, body, changes,
  version FROM entries WHERE entries.run = runs.id AND entries.last > query.after ORDER BY entries.last LIMIT %b) AS
  page ON true ORDER BY query.n, page.last

-- [commands]
SELECT query.n, number, time, body FROM unnest(%b::text[], %b::bigint[]) WITH ORDINALITY AS query(run, after, n) JOIN
  runs ON runs.run = query.run JOIN commands ON commands.run = runs.id AND number > query.after ORDER BY query.n,
  number
