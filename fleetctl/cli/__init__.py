"""The command line: error boundary, commands, views."""
