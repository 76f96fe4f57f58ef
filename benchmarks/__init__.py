"""What this package costs beside other SDKs and beside bare floors, measured on the same work; see README.md."""
