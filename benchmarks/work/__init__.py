"""The pieces of work, written once for every event loop and every SDK."""
