"""What the snapshots mean over time: pure, replayable."""
