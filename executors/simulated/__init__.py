"""Made-up hosts with faults and latency from a seed: what the simulator, tests and benches run on."""
