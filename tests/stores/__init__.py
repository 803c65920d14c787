"""Every store under one suite, and what is particular to each."""
