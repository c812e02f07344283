"""Plans for clusters and for devices with little memory, beside those of papers."""
