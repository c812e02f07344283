"""Storage: engine, tables, migrations, records, blobs."""
