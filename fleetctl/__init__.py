"""RUN: remember, coordinate, serve, speak."""
