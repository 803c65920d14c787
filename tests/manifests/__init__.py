"""Want: text becomes typed, pinned, validated documents, or findings with places."""
