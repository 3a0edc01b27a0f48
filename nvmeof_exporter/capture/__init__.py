"""Support bundles: what this node shows, in one file, for somebody who cannot log in to it."""
