"""A make-believe node: NVMe-oF multipath as the kernel would show it, without any hardware.

``simulation`` is pure and in virtual time; ``tree`` keeps a ``/sys`` on disk in
step with it; ``script`` is what happens when; ``command`` runs the exporter on it.
"""
