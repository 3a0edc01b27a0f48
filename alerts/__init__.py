"""Source of the Prometheus rules: ``python -m alerts.generate`` writes the files beside it."""
