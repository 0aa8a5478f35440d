"""What every room may use: settings, seeds, progress, files and canonical JSON."""
