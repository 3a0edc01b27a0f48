"""The page at ``/``: what ``show`` tells at the terminal, live, for a browser or a phone."""
