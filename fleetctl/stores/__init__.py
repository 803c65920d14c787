"""Stores behind the ledger's ports."""
