"""Reading: plans of the compiler, carried out on one snapshot."""
