"""Training a small network on a task, the same way for every scheme."""
