"""One way to drive each SDK and each floor, so that all of them are given the same work."""
