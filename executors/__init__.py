"""DO: observe a host, perform one effect, look one up."""
