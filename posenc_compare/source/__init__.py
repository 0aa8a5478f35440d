"""The source of schemes, measures and tasks, and which parts of it a key covers."""
