"""Policy: what paths, subsystems and the host are held to, and how far they keep it."""

from nvmeof_exporter.policy.evaluate import Facts, evaluate, lasting_facts, lasting_verdicts
from nvmeof_exporter.policy.findings import Finding, Verdict
from nvmeof_exporter.policy.model import Layer, Limits, Policy
from nvmeof_exporter.policy.presets import DEFAULT_PRESET, PRESETS, preset_policy
from nvmeof_exporter.policy.rules import RULES

__all__ = [
    "DEFAULT_PRESET",
    "PRESETS",
    "RULES",
    "Facts",
    "Finding",
    "Layer",
    "Limits",
    "Policy",
    "Verdict",
    "evaluate",
    "lasting_facts",
    "lasting_verdicts",
    "preset_policy",
]
