"""Discovery as tasks on an executor, resumable."""
