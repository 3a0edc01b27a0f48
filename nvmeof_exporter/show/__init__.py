"""The ``show`` command: the node at a glance, for the person at the terminal."""
