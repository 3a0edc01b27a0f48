"""Watches Linux NVMe-oF native multipath and tells Prometheus what is true of it."""

__version__ = "0.1.0"
