"""Models and layers before and after, beside other tools."""
