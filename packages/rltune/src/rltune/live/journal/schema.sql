-- Everything is appended; nothing is changed. Old cycles are deleted as a whole, see prune.py.
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  at_s REAL NOT NULL,
  version TEXT NOT NULL,   -- of rltune
  code TEXT NOT NULL,      -- hash of the core's source
  policy TEXT NOT NULL,    -- hash of the file that a policy or model is in; '' = built in
  settings TEXT NOT NULL   -- JSON
) STRICT;

CREATE TABLE cycle (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run (id),
  at_s REAL NOT NULL,      -- by our clock
  taken_s REAL NOT NULL,   -- by the cluster's
  acting INTEGER NOT NULL,
  waiting INTEGER NOT NULL,
  running INTEGER NOT NULL,
  starts INTEGER NOT NULL,
  decide_s REAL NOT NULL,
  history INTEGER NOT NULL,  -- the last row of ended that was known
  snapshot BLOB NOT NULL,
  holdings BLOB NOT NULL,
  estimates BLOB NOT NULL,
  decision BLOB NOT NULL
) STRICT;

CREATE TABLE change (
  id INTEGER PRIMARY KEY,
  cycle INTEGER NOT NULL,
  at_s REAL NOT NULL,
  job INTEGER NOT NULL,
  submit_s REAL NOT NULL,
  kind TEXT NOT NULL,
  value TEXT NOT NULL,     -- JSON
  before TEXT NOT NULL,    -- JSON
  undo INTEGER NOT NULL,
  advised INTEGER NOT NULL -- only said, not made
) STRICT;
CREATE INDEX change_job ON change (job);

CREATE TABLE outcome (
  change INTEGER PRIMARY KEY REFERENCES change (id),
  at_s REAL NOT NULL,
  error TEXT NOT NULL      -- '' = done
) STRICT;

CREATE TABLE closed (      -- jobs that were changed and will never wait again: nothing is left to give back
  job INTEGER NOT NULL,
  submit_s REAL NOT NULL,
  PRIMARY KEY (job, submit_s)
) STRICT, WITHOUT ROWID;

CREATE TABLE note (
  id INTEGER PRIMARY KEY,
  cycle INTEGER NOT NULL,
  at_s REAL NOT NULL,
  job INTEGER NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE INDEX note_job ON note (job);
CREATE INDEX note_cycle ON note (cycle);

CREATE TABLE ended (
  id INTEGER PRIMARY KEY,
  job INTEGER NOT NULL,
  submit_s REAL NOT NULL,
  eligible_s REAL,
  start_s REAL NOT NULL,
  end_s REAL NOT NULL,
  limit_s REAL,
  gpus INTEGER NOT NULL,
  nodes INTEGER NOT NULL,
  cpus REAL,
  mem_gib REAL,
  priority INTEGER NOT NULL, -- Slurm's own, when last seen waiting
  acted INTEGER NOT NULL,    -- whether the controller acted on it
  partition TEXT NOT NULL,
  user TEXT NOT NULL,
  account TEXT NOT NULL,
  qos TEXT NOT NULL,
  name TEXT NOT NULL,
  gpu_types TEXT NOT NULL,
  state TEXT NOT NULL,
  UNIQUE (job, submit_s, start_s)
) STRICT;

CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  at_s REAL NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;

CREATE TRIGGER run_is_final BEFORE UPDATE ON run BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER cycle_is_final BEFORE UPDATE ON cycle BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER change_is_final BEFORE UPDATE ON change BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER outcome_is_final BEFORE UPDATE ON outcome BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER note_is_final BEFORE UPDATE ON note BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER ended_is_final BEFORE UPDATE ON ended BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER event_is_final BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
