"""The adapters: one interface to each SDK and each floor, so that all do the same work."""
