"""The whole engine over a simulated world, from a seed."""
