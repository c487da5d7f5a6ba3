"""An installed package that serves models, as vLLM is one: tests copy it into a site-packages."""

from .engine import Engine

__all__ = ["Engine"]
