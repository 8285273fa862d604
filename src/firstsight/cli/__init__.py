"""The command line: words to one function call each."""
