"""Makes `trio_mcp.types` out of the specification's JSON Schemas: `python -m codegen --help`."""
