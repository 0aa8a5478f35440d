"""Published rankings, trained again."""
