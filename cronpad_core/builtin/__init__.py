"""Floor 4: plugins that come with the core, through the same door as strangers."""
