"""Floor 7: builds everything; owns tasks, threads and signals."""
