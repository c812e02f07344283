"""Library journeys: discovery, verification, selection, comparison, coverage, gallery."""
