"""Pictures and tables made from results; nothing here runs a method."""
