"""What is measured, written once for every event loop and every SDK."""
