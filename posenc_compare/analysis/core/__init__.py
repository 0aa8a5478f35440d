"""Shared by all rooms: settings, seeds, progress, files and canonical JSON."""
