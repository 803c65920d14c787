"""What is remembered: operations, entries, replay, and the ports journal, leases and documents. Pure."""
