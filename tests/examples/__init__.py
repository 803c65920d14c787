"""The examples run as written."""
