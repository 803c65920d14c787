"""SSH: config, host keys, sessions, become, against real and faulty servers."""
