"""Steps of training beside other frameworks."""
