-- What the seed's tables have no place for. An original node ignores these and keeps them.
-- Where this database stands: epoch it was last written under, branch of its log, last place in the shared
-- commit log, whether the blob store has everything (clean), and up to where the log was compacted.
CREATE TABLE IF NOT EXISTS cellz_place (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch INTEGER NOT NULL DEFAULT 0,
    branch INTEGER NOT NULL DEFAULT 0,
    slot INTEGER NOT NULL DEFAULT 0,
    clean INTEGER NOT NULL DEFAULT 1,
    compacted INTEGER NOT NULL DEFAULT 0
);
INSERT OR IGNORE INTO cellz_place (one) VALUES (1);
-- One row a restore: branch `branch` was cut at `target`; its tail up to `last` is in cellz_abandoned.
CREATE TABLE IF NOT EXISTS cellz_branches (
    branch INTEGER PRIMARY KEY,
    target INTEGER NOT NULL,
    last INTEGER NOT NULL,
    checkpoint_id TEXT,
    created_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS cellz_abandoned (
    branch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    id TEXT NOT NULL,
    turn_id TEXT,
    event_type TEXT NOT NULL,
    payload TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (branch, sequence)
) WITHOUT ROWID;
-- What a kv write replaced, and after which event it happened: restore plays it backwards.
CREATE TABLE IF NOT EXISTS cellz_kv_undo (
    change INTEGER PRIMARY KEY AUTOINCREMENT,
    sequence INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT,
    updated_at TEXT
);
CREATE TABLE IF NOT EXISTS cellz_checkpoint_kv (
    checkpoint_id TEXT PRIMARY KEY,
    change INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS cellz_alarms (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    spec TEXT NOT NULL,
    next_at TEXT,
    fired INTEGER NOT NULL DEFAULT 0,
    missed INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL
);
