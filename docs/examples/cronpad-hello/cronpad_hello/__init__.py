"""A cronpad sink that writes greetings: an example of a complete plugin."""
