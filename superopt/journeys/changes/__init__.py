"""What is done to a model before and after a search: adapted, frozen, converted, arranged for its memory."""
