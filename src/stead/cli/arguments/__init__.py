"""What users type in options, as values, and the names of options in help."""
