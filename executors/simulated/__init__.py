"""A driver whose hosts are made up: faults and latency from a seed."""
