"""Tests, mirrored to the packages they prove."""
