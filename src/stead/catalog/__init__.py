"""What every process knows: the providers at one moment, in arrays, and how the next moment replaces them."""
