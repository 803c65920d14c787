"""The real command over SSH hosts and Docker engines of the laboratory."""
