"""Models as files, bytes and tensors: reading, checking and saving them."""
