"""Builds the site of the documentation: `python -m website` stages its pages, runs Zensical, and checks the result.

The pages of `docs` are read on the site and in the repository. In the repository they link to other files, such as the
README and examples; on the site each of these files has a page of its own.
"""
