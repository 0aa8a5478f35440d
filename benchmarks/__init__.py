"""Timings of the package, by hand: `python -m benchmarks NAME`."""
