"""Real systems that tests start by themselves, use, and stop: engines, hosts, servers, and network faults."""
