"""Published figures, computed again."""
