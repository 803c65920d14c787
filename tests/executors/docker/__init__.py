"""The docker driver: pure parts, and a real engine."""
