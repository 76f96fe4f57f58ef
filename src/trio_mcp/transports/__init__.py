"""BINDINGS: how exchanges travel. One file per binding and side."""
