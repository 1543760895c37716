"""A cronpad misfire policy that catches up what was missed today: an example of a complete plugin."""
