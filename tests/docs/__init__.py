"""The site: its pages, its API reference and its gallery, without building it."""
