"""How values are shown: to people, to machines, while something runs."""
