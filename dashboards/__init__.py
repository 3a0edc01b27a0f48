"""Dashboards for Grafana: the JSON to import, and the Python it is generated from."""
