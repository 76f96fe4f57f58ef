"""The `trio-mcp` command."""
