"""Plots, one file each: functions of records alone, registered with their captions.

Every plot takes the records of a run, with all measures and schemes, and returns a
figure, or None if they hold nothing for it.
"""
