"""The source of schemes, measures and tasks, and what of it a key counts."""
