"""ANSWERING: the registry of tools, resources and prompts, dispatch, and the ways to serve."""
