"""The driver of the `qemu` substrate: virtual machines of a libvirt."""
