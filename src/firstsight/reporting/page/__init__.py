"""The page that shows every table and figure, and the files beside it."""
