"""The kinds of settings, one a file, and presets of them; a measure names its kind."""
