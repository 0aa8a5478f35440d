"""Compute a comparison: plan, scheduler, workers and provenance."""
