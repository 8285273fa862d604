"""What all our pages share: colours, type, and the cards on which a model's answers stand."""

from firstsight.page_parts.inlining import as_data, read_script, read_style, sha256_source

__all__ = ["as_data", "read_script", "read_style", "sha256_source"]
