"""Tests of the cell daemon: its decisions, its contract on real sockets, and its death."""
