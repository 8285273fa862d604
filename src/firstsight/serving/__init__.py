"""A model behind HTTP: a page for people and a JSON API. The Recognizer answers; nothing here does."""

from firstsight.serving.starting import create_app, serve

__all__ = ["create_app", "serve"]
