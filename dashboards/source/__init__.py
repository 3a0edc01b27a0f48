"""Where the dashboards are written: what they ask, how they look, and what each one shows."""
