"""Properties that hold for any bytes, and what looks for bytes for which they do not: `python -m fuzz`."""
