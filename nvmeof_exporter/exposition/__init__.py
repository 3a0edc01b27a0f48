"""How it is told: metric families, HTTP, the metric reference."""
