"""The engine: decided by tables, tried with simulated hosts."""
