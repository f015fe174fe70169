"""What commands show, as text and as JSON: pure functions from values to lines. One module per subject."""
