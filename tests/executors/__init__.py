"""Executors: transports, drivers, probes and inventory, with real processes and sockets."""
