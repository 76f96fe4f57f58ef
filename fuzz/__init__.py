"""Properties that hold for any bytes, and a search for bytes that break them: `python -m fuzz`."""
