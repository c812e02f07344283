"""What each path of the API does."""
