"""What a run leaves behind: journals, tables, provenance, summaries."""
