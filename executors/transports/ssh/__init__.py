"""SSH by paramiko: config, host keys, authentication, connections, become, and the transport."""
