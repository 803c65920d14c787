"""How a command reaches a host: on this machine, or over SSH."""
