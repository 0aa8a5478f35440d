"""The kinds of settings, one a file; each measure names the one it takes."""
