"""The documentation: its commands exist and run, its tables are what the source says."""
