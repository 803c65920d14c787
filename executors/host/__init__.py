"""The driver of the `host` substrate, over any transport."""
