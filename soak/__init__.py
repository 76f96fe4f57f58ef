"""A soak test: hours of mixed load with faults, and checks for lost calls, leaks, and CPU time at rest."""
