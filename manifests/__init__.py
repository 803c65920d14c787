"""WANT: text becomes typed, pinned, validated documents; every value knows its place."""
