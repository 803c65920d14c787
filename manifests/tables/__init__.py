"""Compatibility tables that ship with the package, one YAML document a product."""
