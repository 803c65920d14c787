"""cellz: one SQLite database, one append-only log and one single-writer lease for each session.

Decisions are pure (`lease`, `conditional`, `lifecycle`, `cursor`, `alarms`); `node`, `resident` and the HTTP
modules perform them. Nothing here imports the engine, and nothing imports this package.
"""
