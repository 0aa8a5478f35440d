"""Show records: tables, plots and the report."""
