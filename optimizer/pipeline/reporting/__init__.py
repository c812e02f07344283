"""What a run reports: the sections of its report, the sizes it was judged at, and what the models contain."""
