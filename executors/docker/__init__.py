"""The driver of the `docker` substrate."""
