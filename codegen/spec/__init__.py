"""The comparison of the generated types with the upstream schemas: `python -m codegen spec --from DIR`."""
