"""Statistics of comparisons: plain arrays in, plain arrays out.

Each file holds one idea: the interval of a mean, the test of all pairs, the order that
the test allows, the correlation of a measure with an outcome. `docs/statistics.md`
says why these were chosen.
"""
