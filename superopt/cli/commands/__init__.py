"""The commands: each module registers those of one subject."""
