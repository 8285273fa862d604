"""Tables made from records, and their formats: HTML, LaTeX, Markdown, CSV."""
