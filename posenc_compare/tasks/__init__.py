"""Tasks, one file each: what networks are trained on and tested by."""
