"""The libvirt driver: its pure parts, libvirt's test hypervisor, and a real libvirt with QEMU."""
