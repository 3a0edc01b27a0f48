"""For every test."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says more about the machine's other work than about the code.
settings.register_profile("nvmeof-exporter", deadline=None)
settings.load_profile("nvmeof-exporter")
