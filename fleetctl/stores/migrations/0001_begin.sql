-- Version 1: journal, leases, documents.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
);

-- One row an entry: `body` is the canonical JSON whose SHA-256 is `sha256`.
CREATE TABLE entries (
    fleet    TEXT    NOT NULL,
    sequence INTEGER NOT NULL,
    sha256   TEXT    NOT NULL,
    body     BLOB    NOT NULL,
    PRIMARY KEY (fleet, sequence)
);

-- One row a fleet. `lease` (JSON) is NULL while nobody holds it; the epoch stays and only grows.
CREATE TABLE leases (
    fleet    TEXT PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    renewals INTEGER NOT NULL,
    lease    TEXT
);

-- When a lease held elsewhere was first seen with its present token, on which machine's monotonic clock.
CREATE TABLE sightings (
    fleet   TEXT PRIMARY KEY,
    token   TEXT NOT NULL,
    machine TEXT NOT NULL,
    seen_s  REAL NOT NULL
);

CREATE TABLE documents (
    digest TEXT PRIMARY KEY,
    body   BLOB NOT NULL
);
