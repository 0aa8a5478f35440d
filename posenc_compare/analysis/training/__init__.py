"""Training a small language model on real text, the same way for every scheme."""
