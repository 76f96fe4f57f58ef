"""The generator of `trio_mcp.types` from the JSON Schemas of the specification: `python -m codegen --help`."""
