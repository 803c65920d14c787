"""Programs that tests run as nodes."""
