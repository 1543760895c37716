"""Floor 0: values and pure decisions. Standard library only; no clock, no randomness, no input or output."""
