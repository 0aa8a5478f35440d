"""Measures of schemes, training, records of results, tables and plots."""
