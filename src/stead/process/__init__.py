"""What a process does about itself: threads, memory, time slices."""
