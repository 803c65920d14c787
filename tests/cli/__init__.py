"""The command line, from the inside and as a subprocess."""
