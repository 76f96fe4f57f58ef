"""The search for tools among those of many servers."""
