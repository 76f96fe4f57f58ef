"""Hours of a mixed load with faults in it, and the proof that nothing was lost, nothing grows, and rest is rest."""
