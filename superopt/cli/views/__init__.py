"""What commands print: tables and summaries for people."""
