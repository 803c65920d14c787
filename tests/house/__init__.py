"""The rules of the house, made executable."""
