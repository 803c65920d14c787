"""Promises of the product, kept by the real command line over real processes and sockets."""
