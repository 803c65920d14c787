"""State that several folders share, through the real command."""
