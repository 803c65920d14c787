"""The only loop that records intent, acts, and records the outcome."""
