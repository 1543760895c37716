"""Floor 1: what the engine needs from the world, as protocols with numbered promises."""
