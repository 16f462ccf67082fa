"""How second moments are taken."""
