"""Time and identity come from outside, so that a run is a function of its seed."""
