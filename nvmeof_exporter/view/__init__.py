"""The node at one moment as one structure: for ``show``, the status page, and whoever asks."""
