"""DECIDE: desired, observed and recorded become a plan; pure, without I/O, clock or randomness."""
