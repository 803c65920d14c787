"""What the planner decides: tables, case files, and properties phrased as never."""
