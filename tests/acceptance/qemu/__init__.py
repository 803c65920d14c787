"""The real command over virtual machines of a private libvirt."""
