"""What Stead can do, without HTTP."""
