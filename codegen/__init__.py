"""The generator of the message types from the JSON Schemas of the specification and its extensions.

`python -m codegen --help` explains the command; CONTRIBUTING.md says when to run it.
"""
