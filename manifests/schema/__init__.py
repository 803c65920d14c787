"""The manifest kinds as pydantic models, one file per kind."""
