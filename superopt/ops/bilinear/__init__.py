"""Convolutions and products by bilinear algorithms, which multiply less than the definition."""
