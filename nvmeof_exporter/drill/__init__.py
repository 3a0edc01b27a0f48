"""The failover drill: a load, a fault that somebody causes, and a verdict on what came of it."""
