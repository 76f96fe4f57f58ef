"""The benchmarks of this package, other SDKs and bare floors on the same work; see README.md."""
